"""What a `.pte` file holds, as plain data for tables and JSON: methods, operators, delegates, memory, sizes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from npu_assay.conformance.common.errors import UsageError, failing
from npu_assay.conformance.pte.options import Summary
from npu_assay.files import read_regular
from npu_assay.partitioners.exir.backend import Backend
from npu_assay.partitioners.exir.pte.kernels import spelled
from npu_assay.partitioners.exir.pte.model import Delegate, DelegateCall, EValue, KernelCall, Plan, Program, Tensor
from npu_assay.partitioners.exir.pte.reader import FormatError, layout, read

LARGEST = 2**31  # bytes: what a flatbuffer's offsets reach


def read_file(path: Path) -> bytes:
    """The bytes of a model. Raises UsageError."""
    with failing(path, "cannot be read"):
        return read_regular(path, LARGEST)


def load_program(path: Path, data: bytes) -> Program:
    """The program in the bytes of a model. Raises UsageError for what is not a valid `.pte` file."""
    try:
        return read(data)
    except FormatError as error:
        raise UsageError(f"{path}: not a valid .pte file: {error}") from error


def inspect(path: Path, backends: Mapping[str, Backend]) -> Summary:
    """Everything about a model; `backends`, by delegate id, read the delegates' blobs. Raises UsageError."""
    data = read_file(path)
    program = load_program(path, data)
    parts = layout(data)
    return {
        "file": path.name,
        "bytes": len(data),
        "flatbuffer_bytes": parts.flatbuffer,
        "segments": [{"content": name, "bytes": size} for name, size in parts.segments],
        "methods": [_method(plan, backends) for plan in program.plans],
    }


def _method(plan: Plan, backends: Mapping[str, Backend]) -> Summary:
    instructions = [each for chain in plan.chains for each in chain.instructions]
    operators = Counter(spelled(plan.operators[each.op_index]) for each in instructions if isinstance(each, KernelCall))
    calls = Counter(each.delegate_index for each in instructions if isinstance(each, DelegateCall))
    return {
        "name": plan.name,
        "inputs": [described(plan.values[index]) for index in plan.inputs],
        "outputs": [described(plan.values[index]) for index in plan.outputs],
        "instructions": len(instructions),
        "operators": [{"operator": name, "calls": count} for name, count in sorted(operators.items())],
        "delegates": [_delegate(each, calls[index], backends) for index, each in enumerate(plan.delegates)],
        "memory": _memory(plan),
    }


def described(value: EValue) -> str:
    """`float32[1, 3, 8, 8]`, with `<=` before upper bounds; other values by their type and value."""
    if not isinstance(value, Tensor):
        return f"{type(value).__name__} {value!r}" if isinstance(value, bool | int | float | str) else _name(value)
    sizes = ", ".join(str(size) if value.dynamism == "static" else f"<={size}" for size in value.sizes)
    return f"{str(value.dtype).removeprefix('torch.')}[{sizes}]"


def _name(value: EValue) -> str:
    return "None" if value is None else type(value).__name__


def _delegate(delegate: Delegate, calls: int, backends: Mapping[str, Backend]) -> Summary:
    operators = blob_operators(delegate, backends)
    return {
        "backend": delegate.id,
        "bytes": len(delegate.data),
        "calls": calls,
        "compile_specs": [each.key for each in delegate.compile_specs],
        "operators": None
        if operators is None
        else [{"operator": name, "calls": count} for name, count in sorted(Counter(operators).items())],
    }


def blob_operators(delegate: Delegate, backends: Mapping[str, Backend]) -> Sequence[str] | None:
    """The operators in a delegate's blob, or None when no backend here can read it."""
    backend = backends.get(delegate.id)
    if backend is None or backend.blob_operators is None:
        return None
    try:
        return backend.blob_operators(bytes(delegate.data))
    except ValueError:  # a FormatError: the id is shared with a compiler that writes another format
        return None


def _memory(plan: Plan) -> Summary:
    """Arenas, and what the planned tensors would take if none shared memory with another."""
    planned = [each.nbytes for each in plan.values if isinstance(each, Tensor) and each.allocation is not None]
    arenas, total = sum(plan.buffer_sizes), sum(planned)
    return {
        "arenas": [{"id": index, "bytes": size} for index, size in enumerate(plan.buffer_sizes) if index],
        "arena_bytes": arenas,
        "planned_tensors": len(planned),
        "bytes_without_reuse": total,
        "reuse_ratio": round(total / arenas, 3) if arenas else None,
    }
