"""Run a method of a `.pte` file on arrays from files, or on random ones."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from npu_assay.conformance.errors import UsageError
from npu_assay.conformance.inspect_program import described, load_program, read_file
from npu_assay.conformance.npy import NpyError, npy_arrays
from npu_assay.files import replacing
from npu_assay.partitioners.exir.backend import Backend
from npu_assay.partitioners.exir.errors import ExirError
from npu_assay.partitioners.exir.pte.model import EValue, Plan, Tensor
from npu_assay.partitioners.exir.pte.run import load

WIDE = 10  # random integers wider than 8 bits are below: many index something

RANDOM_LIMIT = 2**31  # bytes of one input

SEED_LIMIT = 2**64 - 1  # the largest that torch's generator takes


@dataclass(frozen=True)
class Request:
    """What `assay run` was asked for. inputs: files of arrays; seed: of random inputs, None for none.

    force: write over a file that is there.
    """

    model: Path
    inputs: tuple[Path, ...]
    method: str
    seed: int | None
    out: Path | None
    force: bool = False


def run(request: Request, backends: Mapping[str, Backend]) -> list[Any]:
    """The outputs, also written to the file that was asked for. Raises UsageError for all that cannot be run."""
    if request.out is not None and os.path.lexists(request.out) and not request.force:
        raise UsageError(f"{request.out}: it exists already, expected a new file (--force writes over it)")
    program = load_program(request.model, read_file(request.model))
    loaded = load(program, {name: backend.runtime for name, backend in backends.items()})
    try:
        plan = loaded.plan(request.method)
        outputs = loaded.execute(request.method, _inputs(request, plan))
    except ExirError as error:
        raise UsageError(f"{request.model}: {error}") from error
    if request.out is not None:
        _save(request.out, outputs)
    return outputs


def _inputs(request: Request, plan: Plan) -> list[Any]:
    """One value per input of the method."""
    wanted = [plan.values[index] for index in plan.inputs]
    if request.seed is not None:
        if request.inputs:
            raise UsageError("--random and --inputs: expected one of them")
        if request.seed > SEED_LIMIT:
            raise UsageError(f"--random: the seed is {request.seed}, expected at most {SEED_LIMIT}")
        generator = torch.Generator().manual_seed(request.seed)
        return [_random(value, generator) for value in wanted]
    arrays = [array for path in request.inputs for array in _arrays(path)]
    if len(arrays) != len(wanted):
        texts = ", ".join(map(described, wanted))
        hint = "" if request.inputs else "; give --inputs FILE or --random SEED"
        found = f"found {len(arrays)} inputs, expected {len(wanted)}"
        raise UsageError(f"method {plan.name!r}: {found}{f' ({texts})' * bool(wanted)}{hint}")
    return [_converted(array, value) for array, value in zip(arrays, wanted, strict=True)]


def _arrays(path: Path) -> list[np.ndarray[Any, Any]]:
    """The arrays of an .npy file, or those of an .npz file in its order."""
    try:
        return npy_arrays(path.read_bytes())
    except OSError as error:
        reason = error.strerror or str(error)
        raise UsageError(f"{path}: not an .npy or .npz file that can be read: {reason}") from error
    except NpyError as error:
        raise UsageError(f"{path}: not an .npy or .npz file of plain arrays: {error}") from error


def _converted(array: np.ndarray[Any, Any], value: EValue) -> Any:
    """An array as the method takes it: a number for a number, float32 rounded for bfloat16."""
    if not isinstance(value, Tensor):
        return array.item() if array.ndim == 0 else array
    try:
        tensor = torch.from_numpy(np.ascontiguousarray(array).reshape(array.shape))
    except (TypeError, ValueError) as error:
        raise UsageError(f"an input has type {array.dtype}, expected {described(value)}") from error
    return tensor.to(torch.bfloat16) if (tensor.dtype, value.dtype) == (torch.float32, torch.bfloat16) else tensor


def _random(value: EValue, generator: torch.Generator) -> Any:
    """Normally distributed floats, any 8-bit integers, wider ones from 0 to 9, booleans; other values as they are."""
    if not isinstance(value, Tensor):
        return value
    if value.nbytes > RANDOM_LIMIT:
        raise UsageError(f"--random: an input has {value.nbytes} bytes, expected at most {RANDOM_LIMIT}")
    if value.dtype.is_floating_point:
        return torch.randn(value.sizes, generator=generator).to(value.dtype)
    if value.dtype in (torch.int8, torch.uint8):
        limits = torch.iinfo(value.dtype)
        return torch.randint(limits.min, limits.max + 1, value.sizes, generator=generator, dtype=value.dtype)
    high = 2 if value.dtype == torch.bool else WIDE
    return torch.randint(high, value.sizes, generator=generator).to(value.dtype)


def rows(outputs: Sequence[Any]) -> list[tuple[str, ...]]:
    """Number, type and content of each output, for a table."""
    return [(str(index), _type(each), _content(each)) for index, each in enumerate(outputs)]


def _type(output: Any) -> str:
    if isinstance(output, torch.Tensor):
        return f"{str(output.dtype).removeprefix('torch.')}{list(output.shape)}"
    return "None" if output is None else type(output).__name__


def _content(output: Any) -> str:
    """The range of a tensor and its first elements."""
    if output is None:
        return "no output"
    if not isinstance(output, torch.Tensor):
        return repr(output)
    if not output.numel():
        return "no elements"
    flat = output.flatten()
    first = ", ".join(f"{each:.6g}" if isinstance(each, float) else str(each) for each in flat[:4].tolist())
    text = first + (", ..." if flat.numel() > 4 else "")
    if output.dtype == torch.bool or output.is_complex():
        return text
    low, high = (f"{each:.6g}" for each in (flat.double().min().item(), flat.double().max().item()))
    return f"{low} to {high}: {text}"


def _save(path: Path, outputs: Sequence[Any]) -> None:
    """An .npz file of output_0, output_1, ... but for those that are None.

    Numbers in bfloat16 become float32, which holds them exactly.
    """
    arrays = {f"output_{index}": _array(each, index) for index, each in enumerate(outputs) if each is not None}
    try:
        with replacing(path) as (draft,), draft.open("wb") as file:
            np.savez(file, **arrays)  # type: ignore[arg-type]  # its stub takes the first of them for a flag
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror or error}") from error


def _array(output: Any, index: int) -> np.ndarray[Any, Any]:
    if isinstance(output, torch.Tensor):
        plain = output.float() if output.dtype == torch.bfloat16 else output
        return plain.contiguous().numpy()
    array = np.array(output)
    if array.dtype == object:
        raise UsageError(f"output {index} is {output!r}: expected a tensor, a number or a text, to be saved")
    return array
