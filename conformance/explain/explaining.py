"""Explaining a model: what each backend takes of it, why not the rest, what it costs, what its numbers are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import torch
from torch import Tensor, fx
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from npu_assay.conformance.common.describing import message, type_name
from npu_assay.conformance.explain.asking import Asking
from npu_assay.conformance.explain.causes import Causes
from npu_assay.conformance.explain.changes import smallest_change
from npu_assay.conformance.explain.following import Following
from npu_assay.conformance.explain.inputs import Given, Inputs, SampleError, sample
from npu_assay.conformance.explain.inside import codes_inside
from npu_assay.conformance.explain.layers import infinite_of, layers_of, look_at
from npu_assay.conformance.explain.lowered import Lowered, lower, origins
from npu_assay.conformance.explain.models import Model, Quantized, quantize
from npu_assay.conformance.explain.numbers import Outputs, compared, empty
from npu_assay.conformance.explain.origins import module_of
from npu_assay.conformance.explain.progress import Step, silent
from npu_assay.conformance.explain.record import NO_FILE, Cause, Change, Explained, nothing
from npu_assay.conformance.explain.silence import silence
from npu_assay.conformance.explain.training import trained, warnings_of
from npu_assay.conformance.explain.trying import Trying
from npu_assay.conformance.reach.flow import DYNAMIC, STATIC, NoWay, flow_of
from npu_assay.conformance.table import load_table
from npu_assay.partitioners.exir import Backend, run_program


@dataclass(frozen=True)
class How:
    """How a model is brought to a backend. dynamic: activations are quantized at run time."""

    dynamic: bool = False

    def quantizer(self, backend: Backend) -> Any:
        """The quantizer of this kind of the backend, or of the steps that its vendor documents. Raises LookupError."""
        steps = flow_of(backend)
        for precision in (DYNAMIC,) if self.dynamic else reversed(STATIC):  # per channel before per tensor
            with suppress(NoWay):
                return steps.quantizer(precision)
        kind = "dynamic quantizer" if self.dynamic else "quantizer"
        raise LookupError(f"the backend has no {kind}; expected a model that is quantized already")


CHANGED = 8  # causes for which a change is looked for
RUNS = 4  # inputs that results are compared on
LOOKS = 2  # inputs that layers are looked at with
BACKEND_WRONG = (
    "the device's results carry nothing of the model's ({:.1f} dB), while torch computes the same delegates right: the"
    " backend computes what it took wrong; assay reduce --of wrong looks for an operator that shows it"
)
LOWERED_WRONG = (
    "the device's results carry nothing of the model's ({:.1f} dB), nor do its delegates as torch computes them: the"
    " lowered program is another one"
)
COMES_QUANTIZED = "the model comes quantized, and is taken as it is: --calibrate only says what it runs on"
NO_EDGE_FILE = f"{NO_FILE}: ExecuTorch refuses models with operators that have no form in its edge dialect"


def explained(
    model: Model, backend: Backend, samples: Sequence[Given] | None, how: How, step: Step = silent
) -> tuple[Explained, bytes]:
    """The model on one backend, and its `.pte` file, b"" for none. What the backend raises is told, not raised.

    step: is told what is done next. Raises SampleError for samples that the model does not run on.
    """
    quantized = None
    try:
        if samples is not None and not model.is_quantized:
            step("quantizing")
            quantized = quantize(model, how.quantizer(backend), samples)
        step("lowering")
        lowered = lower(quantized.program if quantized else model.program, backend)
    except SampleError:
        raise
    except Exception as error:  # noqa: BLE001  (a backend may raise anything)
        return nothing(backend.name, told(error), quantized is not None), b""
    step("looking for causes")
    asking, training = Asking(backend, load_table(backend.table)), trained(model.program)
    trying = None if quantized is None else Trying(backend, lambda: how.quantizer(backend))
    places = frozenset(module_of(node)[0] for node in training)
    causes = Causes(lowered, asking, quantized is not None, places, trying)
    operators, found = causes.found()
    found = tuple(_changed(cause, causes, asking) if n < CHANGED else cause for n, cause in enumerate(found))
    one = Explained(backend.name, quantized is not None, operators, found, lowered.delegates, None, None, ())
    warned = quantized.warnings if quantized is not None else ()
    given = (COMES_QUANTIZED,) if samples is not None and model.is_quantized else ()
    one = replace(one, warnings=(*warnings_of(training), *given, *warned, *_left_over(len(model.inputs))))
    step("running")
    measured = _Measured(model, quantized, lowered, backend, list(model.inputs)[:RUNS])
    return measured.told_of(one), measured.buffer


def _left_over(count: int) -> Iterator[str]:
    """That there are samples that nothing ran on."""
    if count > RUNS:
        yield f"numbers: {RUNS} of {count} samples"


def told(error: BaseException) -> str:
    """An error in one line, with the one that it came of where its text does not say that one."""
    first = error
    while first.__cause__ is not None:
        first = first.__cause__
    text = _line(error)
    return text if " ".join(message(first).split())[:80] in text else f"{text} <- {_line(first)}"


def _line(error: BaseException) -> str:
    return f"{type_name(error)}: {' '.join(message(error).split())[:400]}"


def _changed(cause: Cause, causes: Causes, asking: Asking) -> Cause:
    """The cause with the smallest change of its dearest root that is taken, or another way to write it."""
    if causes.trying is not None:
        first = causes.operators[cause.roots[0]]
        advice = causes.trying.advice(cause.label, first.shape) or causes.trying.advice(first.kind, first.shape)
        cause = replace(cause, hint=advice or cause.hint)
    roots = [name for name in cause.roots if name in causes.graphs]
    if not roots:
        return cause
    root = max(roots, key=lambda name: causes.operators[name].macs)
    told = partial(Following(causes.lowered.program).in_words, node=causes.nodes[root])
    found = smallest_change(causes.graphs[root], asking, told)
    if found is None:
        return cause
    return replace(cause, change=Change(root, found))


# ------------------------------------------------------------------------------------ sizes and numbers


@dataclass
class _Measured:
    """What is measured of a lowered model; each part may fail, and the others are told all the same."""

    model: Model
    quantized: Quantized | None
    lowered: Lowered
    backend: Backend
    inputs: Sequence[Inputs]
    buffer: bytes = b""
    errors: list[str] = field(default_factory=list)

    @cached_property
    def given(self) -> fx.GraphModule:
        """The model, as it came."""
        return _module(self.model.program)

    @cached_property
    def coded(self) -> fx.GraphModule:
        """The quantized model."""
        return self.given if self.quantized is None else _module(self.quantized.program)

    def told_of(self, one: Explained) -> Explained:
        """With the program's size, its memory, its results beside torch's, and its layers."""
        for what, measure in ((NO_FILE, self.file), ("not run", self.numbers), ("layers", self.layers)):
            try:
                one = replace(one, **measure(one))
            except SampleError:
                raise
            except Exception as error:  # noqa: BLE001  (a device may raise anything)
                self.errors.append(f"{what}: {told(error)}")
        return replace(one, error="; ".join(self.errors))

    def file(self, one: Explained) -> dict[str, Any]:
        """The sizes of the `.pte` file and of its arenas; a warning for what ExecuTorch's own lowering refuses."""
        if not self.lowered.is_edge:
            return {"warnings": (*one.warnings, NO_EDGE_FILE)}
        made = self.lowered.manager.to_executorch()
        memory = sum(sum(plan.buffer_sizes) for plan in made.executorch_program.plans)
        self.buffer = made.buffer
        return {"program": len(self.buffer), "memory": memory}

    def numbers(self, one: Explained) -> dict[str, Any]:
        """Device, quantized model and float model on the first inputs; a warning where the device's carry nothing."""
        edge = self.lowered.manager.exported_program()
        runtimes = {self.backend.details.__name__: self.backend.runtime}
        flat = [each.leaves for each in self.inputs]
        wanted = _called(self.given, self.inputs)  # first: what it raises is not the device's
        runs: dict[str, list[Outputs]] = {"device": [_tensors(run_program(edge, each, runtimes)) for each in flat]}
        if self.quantized is not None:
            runs["quantized"] = _called(self.coded, self.inputs)
        runs["torch" if self.model.is_quantized else "float"] = wanted
        numbers = compared(runs)
        if (lost := empty(numbers)) is None:
            return {"numbers": numbers}
        right = [_tensors(run_program(edge, each, original_modules=True)) for each in flat]
        (again,) = compared({"delegates": right, lost.wanted: runs[lost.wanted]})
        text = BACKEND_WRONG if again.sqnr is None or again.sqnr > 0 else LOWERED_WRONG
        return {"numbers": numbers, "warnings": (*one.warnings, text.format(lost.sqnr))}

    def layers(self, one: Explained) -> dict[str, Any]:
        """The layers of a quantized model, and why its results carry nothing where they do not."""
        if self.quantized is None and not self.model.is_quantized:
            return {}
        constants = {} if self.quantized is None else self.quantized.constants
        inputs = [each.leaves for each in self.inputs[:LOOKS]]
        try:
            codes = codes_inside(self.lowered.program, self.backend, inputs)
        except Exception as error:  # noqa: BLE001  (the same)
            self.errors.append(f"layers as torch computes them: {told(error)}")
            codes = [{} for _ in inputs]
        runs = list(zip(inputs, codes, strict=True))
        seen = look_at(self.coded, constants, infinite_of(self.given), runs)
        return {"layers": layers_of(seen, origins(self.lowered.program)), "silence": silence(seen, one.numbers)}


def _module(program: ExportedProgram) -> fx.GraphModule:
    module = program.module()
    assert isinstance(module, fx.GraphModule)
    return module


def _called(module: fx.GraphModule, inputs: Sequence[Inputs]) -> list[Outputs]:
    found = list[Outputs]()
    for number, each in enumerate(inputs):
        with torch.no_grad(), sample(number, calibrates=False):
            found.append(_tensors(module(*each.args, **each.kwargs)))
    return found


def _tensors(outputs: Any) -> list[Tensor]:
    return [each for each in pytree.tree_leaves(outputs) if isinstance(each, Tensor)]
