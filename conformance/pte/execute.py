"""Runs a method of a `.pte` file on arrays from files, or on random ones; in the process that is made for it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from npu_assay.conformance.common.errors import UsageError, failing
from npu_assay.conformance.common.npy import FILE, NpyError, npy_arrays
from npu_assay.conformance.isolation.limits import MEBI
from npu_assay.conformance.pte.contents import described, load_program, read_file
from npu_assay.conformance.pte.options import Request
from npu_assay.conformance.pte.values import encode
from npu_assay.files import read_regular
from npu_assay.partitioners.exir.backend import Backend
from npu_assay.partitioners.exir.errors import ExirError
from npu_assay.partitioners.exir.pte.model import EValue, Plan, Tensor
from npu_assay.partitioners.exir.pte.run import load

WIDE = 10  # random integers wider than 8 bits are below: many index something

SEED_LIMIT = 2**64 - 1  # the largest that torch's generator takes


def executed(request: Request, backends: Mapping[str, Backend]) -> bytes:
    """The outputs, as `model_values` has them. Raises UsageError for all that cannot be run."""
    program = load_program(request.model, read_file(request.model))
    runtimes = {name: backend.runtime for name, backend in backends.items()}
    loaded = load(program, runtimes, memory_limit=request.limits.mebibytes * MEBI)
    try:
        plan = loaded.plan(request.method)
        return encode(loaded.execute(request.method, _inputs(request, plan)))
    except ExirError as error:
        raise UsageError(f"{request.model}: {error}") from error


def _inputs(request: Request, plan: Plan) -> list[Any]:
    """One value per input of the method."""
    wanted = [plan.values[index] for index in plan.inputs]
    if request.seed is not None:
        if request.inputs:
            raise UsageError("--random and --inputs: expected one of them")
        if request.seed > SEED_LIMIT:
            raise UsageError(f"--random: the seed is {request.seed}, expected at most {SEED_LIMIT}")
        generator = torch.Generator().manual_seed(request.seed)
        limit = request.limits.mebibytes * MEBI
        return [_random(value, generator, limit) for value in wanted]
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
        with failing(path, "not an .npy or .npz file that can be read"):
            return npy_arrays(read_regular(path, FILE))
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


def _random(value: EValue, generator: torch.Generator, limit: int) -> Any:
    """Normally distributed floats, any 8-bit integers, wider ones from 0 to 9, booleans; other values as they are."""
    if not isinstance(value, Tensor):
        return value
    if value.nbytes > limit:
        raise UsageError(f"--random: an input has {value.nbytes} bytes, expected at most {limit} (--memory)")
    if value.dtype.is_floating_point:
        return torch.randn(value.sizes, generator=generator).to(value.dtype)
    if value.dtype in (torch.int8, torch.uint8):
        limits = torch.iinfo(value.dtype)
        return torch.randint(limits.min, limits.max + 1, value.sizes, generator=generator, dtype=value.dtype)
    high = 2 if value.dtype == torch.bool else WIDE
    return torch.randint(high, value.sizes, generator=generator).to(value.dtype)
