"""Explaining a model: what each backend takes of it, why not the rest, what it costs, what its numbers are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from npu_assay.conformance.explain.asking import Asking
from npu_assay.conformance.explain.causes import Causes
from npu_assay.conformance.explain.changes import smallest_change
from npu_assay.conformance.explain.lowered import Lowered, lower
from npu_assay.conformance.explain.models import Inputs, Model, quantise
from npu_assay.conformance.explain.numbers import Outputs, compared
from npu_assay.conformance.explain.record import Cause, Change, Comparison, Explained, Explanation
from npu_assay.conformance.table import load_table
from npu_assay.partitioners.exir import Backend, run_program

CHANGED = 8  # causes for which a change is looked for
RUNS = 4  # inputs that results are compared on


def explain_model(model: Model, backends: Sequence[Backend], samples: Sequence[Inputs] | None = None) -> Explanation:
    """The model on each backend; with `samples` it is quantised first by the backend's quantizer, on these inputs."""
    return Explanation(model.name, tuple(explained(model, backend, samples) for backend in backends))


def explained(model: Model, backend: Backend, samples: Sequence[Inputs] | None) -> Explained:
    """The model on one backend. What the backend raises is told, not raised."""
    program, quantised = model.program, False
    try:
        if samples is not None and backend.quantizer is not None and not model.is_quantised:
            program, quantised = quantise(model, backend.quantizer(), samples), True
        lowered = lower(program, backend)
    except Exception as error:  # a backend may raise anything
        return Explained(backend.name, quantised, (), (), (), None, None, (), told(error))
    causes = Causes(lowered, asking := Asking(backend, load_table(backend.table)))
    operators, found = causes.found()
    found = tuple(_changed(cause, causes, asking) if n < CHANGED else cause for n, cause in enumerate(found))
    one = Explained(backend.name, quantised, operators, found, lowered.delegates, None, None, ())
    return _run(one, model, program, lowered, backend, samples)


def told(error: BaseException) -> str:
    """An error in one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())[:400]}"


def _changed(cause: Cause, causes: Causes, asking: Asking) -> Cause:
    """The cause with the smallest change of its dearest root that is taken, and what that would win."""
    roots = [name for name in cause.roots if name in causes.graphs]
    if not roots:
        return cause
    root = max(roots, key=lambda name: causes.operators[name].macs)
    found = smallest_change(causes.graphs[root], asking)
    if found is None:
        return cause
    won = [root, *(name for name in cause.follows if causes.root(name) == root)]
    return replace(cause, change=Change(root, found[0], len(won), sum(causes.operators[n].macs for n in won)))


# ------------------------------------------------------------------------------------ sizes and numbers


def _run(
    one: Explained,
    model: Model,
    program: ExportedProgram,
    lowered: Lowered,
    backend: Backend,
    samples: Sequence[Inputs] | None,
) -> Explained:
    """With the program's size, its memory, and its results beside torch's."""
    errors = []
    try:
        file = lowered.manager.to_executorch()
        memory = sum(sum(plan.buffer_sizes) for plan in file.executorch_program.plans)
        one = replace(one, program=len(file.buffer), memory=memory)
    except Exception as error:  # noqa: BLE001  (the rest of what is known is told all the same)
        errors.append(f"no program file: {told(error)}")
    try:
        one = replace(one, numbers=_numbers(model, program, lowered, backend, samples))
    except Exception as error:  # noqa: BLE001  (a device may raise anything)
        errors.append(f"not run: {told(error)}")
    return replace(one, error="; ".join(errors))


def _numbers(
    model: Model, program: ExportedProgram, lowered: Lowered, backend: Backend, samples: Sequence[Inputs] | None
) -> tuple[Comparison, ...]:
    """Device, quantised model and float model on the first inputs."""
    inputs = list(samples or model.inputs)[:RUNS]
    edge, runtimes = lowered.manager.exported_program(), {backend.details.__name__: backend.runtime}
    runs: dict[str, list[Outputs]] = {
        "device": [_tensors(run_program(edge, _flat(each), runtimes)) for each in inputs],
        "torch": _called(program, inputs),
    }
    if program is not model.program:
        runs["quantised"] = runs.pop("torch")
        runs["float"] = _called(model.program, inputs)
    return compared(runs)


def _called(program: ExportedProgram, inputs: Sequence[Inputs]) -> list[Outputs]:
    module = program.module()
    with torch.no_grad():
        return [_tensors(module(*each)) for each in inputs]


def _flat(inputs: Inputs) -> list[Any]:
    return list(pytree.tree_leaves(inputs))


def _tensors(outputs: Any) -> list[Tensor]:
    return list(_found(outputs))


def _found(outputs: Any) -> Iterator[Tensor]:
    yield from (each for each in pytree.tree_leaves(outputs) if isinstance(each, Tensor))
