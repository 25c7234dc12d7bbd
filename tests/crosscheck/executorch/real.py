"""Runs delegate blobs on the real ExecuTorch runtime, in a process of its own: a crash there is a result.

The program around a blob is one delegate call with the blob's arguments as the program's, written by ExecuTorch's own
serializer. Its sizes are those of the run, so a blob for open sizes is run at any sizes within its bounds.
"""

from __future__ import annotations

import multiprocessing
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from functools import cache
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

Array = npt.NDArray[Any]

BACKEND = "XnnpackBackend"
ALIGNMENT = 16
SLACK = 256  # XNNPACK reads beyond the end of its operands
_LEAF = '{"type": null, "context": null, "children_spec": []}'


@dataclass(frozen=True)
class Argument:
    """Type and sizes of a program's input or output; whether its memory is channels last."""

    dtype: str
    shape: tuple[int, ...]
    channels_last: bool = False


@dataclass(frozen=True)
class Job:
    """A blob, its inputs (as torch shows them, whatever the memory), and what it returns."""

    blob: bytes
    inputs: tuple[Array, ...]
    arguments: tuple[Argument, ...]
    results: tuple[Argument, ...]


def program_around(job: Job) -> bytes:
    """A program whose only instruction calls the blob's delegate."""
    from executorch.exir import schema
    from executorch.exir._serialize._program import PTEFile, serialize_pte_binary

    places = (*job.arguments, *job.results)
    values, end = [], 0
    for place in places:
        values.append(schema.EValue(_tensor(place, end)))
        end += (prod(place.shape) * np.dtype(place.dtype).itemsize + SLACK) // ALIGNMENT * ALIGNMENT + ALIGNMENT
    count, everything = len(job.arguments), list(range(len(places)))
    call = schema.Instruction(schema.DelegateCall(0, everything))
    blob = schema.BackendDelegateDataReference(schema.DataLocation.INLINE, 0)
    plan = schema.ExecutionPlan(
        name="forward",
        container_meta_type=schema.ContainerMetadata(*_nesting(count, len(job.results))),
        values=values,
        inputs=everything[:count],
        outputs=everything[count:],
        chains=[schema.Chain([], [], [call], None)],
        operators=[],
        delegates=[schema.BackendDelegate(BACKEND, blob, [])],
        non_const_buffer_sizes=[0, end],
    )
    data = [schema.BackendDelegateInlineData(job.blob)]
    program = schema.Program(0, [plan], [schema.Buffer(b"")], data, [], schema.SubsegmentOffsets(0, []))
    return bytes(serialize_pte_binary(PTEFile(program)))


def _tensor(place: Argument, offset: int) -> Any:
    from executorch.exir import schema
    from executorch.exir.scalar_type import ScalarType

    kinds = {"float32": ScalarType.FLOAT, "float16": ScalarType.HALF, "int8": ScalarType.CHAR}
    rank = len(place.shape)
    return schema.Tensor(
        scalar_type=kinds[place.dtype],
        storage_offset=0,
        sizes=list(place.shape),
        dim_order=[0, 2, 3, 1] if place.channels_last else list(range(rank)),
        requires_grad=False,
        layout=0,
        data_buffer_idx=0,
        allocation_info=schema.AllocationDetails(1, offset, 0),
        shape_dynamism=schema.TensorShapeDynamism.STATIC,
    )


def _nesting(inputs: int, outputs: int) -> tuple[str, str]:
    """How arguments and results nest, in the words of torch's tree specs: ((a, b), {}) and (c, d)."""

    def container(kind: str, context: str, children: Sequence[str]) -> str:
        return f'{{"type": "{kind}", "context": "{context}", "children_spec": [{", ".join(children)}]}}'

    positional = container("builtins.tuple", "null", [_LEAF] * inputs)
    given = container("builtins.tuple", "null", [positional, container("builtins.dict", "[]", [])])
    return f"[1, {given}]", f"[1, {container('builtins.tuple', 'null', [_LEAF] * outputs)}]"


@cache
def _runtime() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # see peer
        from executorch.runtime import Runtime

        return Runtime.get()


def _execute(job: Job) -> list[Array] | str:
    """The outputs, or what the runtime says."""
    tensors = [torch.from_numpy(array) for array in job.inputs]
    for index, place in enumerate(job.arguments):
        layout = torch.channels_last if place.channels_last else torch.contiguous_format
        tensors[index] = tensors[index].contiguous(memory_format=layout)
    return _run_program(program_around(job), tensors)


def _run_calls(program: bytes, calls: Sequence[tuple[str, Sequence[Any]]]) -> list[list[Any]] | str:
    """What each call of a method returns, one after the other on the same loaded methods."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # see peer
        import executorch.kernels.quantized  # noqa: F401  # registers kernels
        from executorch.runtime import Verification
    try:
        loaded = _runtime().load_program(program, verification=Verification.InternalConsistency)
        methods = {name: loaded.load_method(name) for name in dict(calls)}
        returned = [methods[name].execute(list(inputs)) for name, inputs in calls]
    except RuntimeError as error:
        return f"refused: {error}"
    return [[v.clone().contiguous().numpy() if isinstance(v, torch.Tensor) else v for v in one] for one in returned]


def _run_program(program: bytes, tensors: list[torch.Tensor]) -> list[Array] | str:
    """The outputs of a whole program, or what the runtime says."""
    try:
        loaded = _runtime().load_program(program)
        returned = loaded.load_method("forward").execute(tensors)
    except RuntimeError as error:
        return f"refused: {error}"
    return [tensor.clone().contiguous().numpy() for tensor in returned]


@dataclass
class Machine:
    """The real runtime in a child process, which is started again when it died."""

    pool: ProcessPoolExecutor | None = field(default=None)

    def run(self, job: Job) -> list[Array] | str:
        """Outputs in order, or what went wrong: "refused: ..." or "died"."""
        found: list[Array] | str = self._submit(_execute, job)
        return found

    def run_program(self, program: bytes, *inputs: torch.Tensor) -> list[Array] | str:
        """The same for a whole program, as ExecuTorch writes it."""
        found: list[Array] | str = self._submit(_run_program, program, list(inputs))
        return found

    def run_calls(self, program: bytes, *calls: tuple[str, Sequence[Any]]) -> list[list[Any]] | str:
        """What the methods of a program return that are called with inputs, on one state."""
        found: list[list[Any]] | str = self._submit(_run_calls, program, calls)
        return found

    def _submit(self, work: Callable[..., Any], *arguments: Any) -> Any:
        if self.pool is None:
            self.pool = ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"))
        try:
            return self.pool.submit(work, *arguments).result()
        except BrokenProcessPool:
            self.close()
            return "died"

    def close(self) -> None:
        """End the child."""
        if self.pool is not None:
            self.pool.shutdown()
        self.pool = None
