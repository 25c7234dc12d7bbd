"""The models of ExecuTorch's operator suite through our export API: each of our partitioners, and Python execution.

What is asked of a model: torch.export takes it, and then, for every partitioner, what is lowered runs with delegates
on our devices, and as a `.pte` file in Python, and gives what the model gives in torch.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.utils._pytree import tree_leaves

from npu_assay.partitioners.ethosu import ethos_u55, ethos_u85
from npu_assay.partitioners.exir import Backend, ExirError, delegates, run_program, to_edge_transform_and_lower
from npu_assay.partitioners.exir.pte.run import load
from npu_assay.partitioners.neutron import backend as neutron
from npu_assay.partitioners.xnnpack import backend as xnnpack
from tests.crosscheck.executorch.suite import Sample, samples

BACKENDS: tuple[Backend | None, ...] = (None, xnnpack, neutron, ethos_u55, ethos_u85)
ULPS = 64
"""Of the largest number of a result: kernels sum up in other orders, and XNNPACK's functions are approximations."""


@dataclass(frozen=True)
class Trouble:
    """A model that does not go all the way: where it stops, and why."""

    model: str
    stage: str
    reason: str


def troubles(share: int, shares: int) -> tuple[int, list[Trouble]]:
    """How many models there are in a share of the suite, and those that do not go all the way."""
    chosen = samples()[share::shares]
    return len(chosen), [found for sample in chosen for found in _trouble(sample)]


def _trouble(sample: Sample) -> Iterator[Trouble]:
    """At most one: the first."""
    torch.manual_seed(0)
    try:
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program = torch.export.export(sample.model, sample.inputs, dynamic_shapes=sample.dynamic_shapes)
            expected = tree_leaves(sample.model(*sample.inputs))
    except Exception as error:  # noqa: BLE001  (torch raises what it likes; the reason says what)
        yield Trouble(sample.name, "torch.export", _first_line(error))
        return
    for backend in BACKENDS:
        found = _lowered(program, sample.inputs, expected, backend)
        if found:
            yield Trouble(sample.name, *found)
            return


def _lowered(
    program: ExportedProgram, inputs: Sequence[Any], expected: Sequence[Any], backend: Backend | None
) -> tuple[str, str] | None:
    """Where a model stops with a backend, and why; None when it goes all the way."""
    name = "no partitioner" if backend is None else backend.name
    given = tree_leaves(inputs)
    runtimes = {} if backend is None else {backend.details.__name__: backend.runtime}
    try:
        stage = "to_edge"
        manager = to_edge_transform_and_lower(program, partitioner=None if backend is None else [backend.partitioner()])
        edge = manager.exported_program()
        stage = "run"
        found = run_program(edge, given, runtimes)
        if reason := different(found, expected):
            return f"{name}: {stage}", reason
        stage = "to_executorch"
        file = manager.to_executorch().buffer
        stage = "run .pte"
        reason = different(load(file, runtimes).execute("forward", given), expected)
        return (f"{name}: {stage}", reason) if reason else None
    except (ExirError, RuntimeError) as error:
        return f"{name}: {stage}", _first_line(error)


def different(found: Sequence[Any], expected: Sequence[Any]) -> str:
    """What is different: types, shapes, integers, or floats by more than ULPS; "" when nothing."""
    if len(found) != len(expected):
        return f"{len(found)} results instead of {len(expected)}"
    return "; ".join(text for pair in zip(found, expected, strict=True) if (text := _apart(*pair)))


def _apart(found: Any, wanted: Any) -> str:
    if not isinstance(wanted, torch.Tensor):
        return "" if found == wanted else f"{found} instead of {wanted}"
    if (found.shape, found.dtype) != (wanted.shape, wanted.dtype):
        return f"{found.dtype} {list(found.shape)} instead of {wanted.dtype} {list(wanted.shape)}"
    same = (found == wanted) | (found.isnan() & wanted.isnan())
    if bool(same.all()):
        return ""
    if not wanted.is_floating_point():
        return "integers differ"
    finite = wanted[wanted.isfinite()].double()
    unit = torch.finfo(wanted.dtype).eps * float(finite.abs().max()) if finite.numel() else 0.0
    off = float((found.double() - wanted.double())[~same].abs().max())
    return "" if off <= ULPS * unit else "numbers differ"


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:200]


def delegated(sample: Sample, make: Callable[[], Any]) -> int:
    """How many delegates a partitioner makes of a model."""
    with torch.no_grad():
        program = torch.export.export(sample.model, sample.inputs, dynamic_shapes=sample.dynamic_shapes)
    return len(delegates(to_edge_transform_and_lower(program, partitioner=[make()]).exported_program()))
