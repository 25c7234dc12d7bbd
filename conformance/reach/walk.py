"""One case from an nn.Module to the outputs of its lowered program."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.export import ExportedProgram

from npu_assay.conformance.common.describing import message, type_name
from npu_assay.conformance.programs.build import model_inputs
from npu_assay.conformance.programs.float_form import plain_module
from npu_assay.conformance.programs.graph import Case, Graph
from npu_assay.conformance.reach.flow import Flow, NoWay
from npu_assay.conformance.run.outline import COPIES, NO_WORK

DELEGATED, PARTLY, LEFT, ERROR, WRONG, NO_WAY = "delegated", "partly", "left", "error", "wrong numbers", "no way"
"""How a case can end. The first three are not faults."""
FAULTS = (ERROR, WRONG)
BOUNDS = {"float16": 2e-2, "bfloat16": 5e-2}
REAL_BOUND, STEPS, CODES = 1e-3, 4, 255
"""Real outputs may differ by `REAL_BOUND` times the largest number; quantized ones by `STEPS` LSB, where one LSB is at
least the largest number over `CODES`."""


@dataclass(frozen=True)
class Met:
    """What a user meets in a case.

    end: one of the constants above. stage: where it ended (export, quantize, lower, run, numbers). said: an error's
    type and message, or how the numbers differ. targets: the operators that no delegate has; delegates: how many
    delegates there are.
    """

    case: str
    end: str
    stage: str
    said: str = ""
    targets: tuple[str, ...] = ()
    delegates: int = 0

    @property
    def is_fault(self) -> bool:
        return self.end in FAULTS

    def as_data(self) -> dict[str, Any]:
        """The outcome as plain data, which `from_data` reads, also after it was JSON."""
        return asdict(self)

    @classmethod
    def from_data(cls, data: dict[str, Any]) -> Met:
        """An outcome from plain data. Raises TypeError for unknown or missing keys."""
        return cls(**{**data, "targets": tuple(data["targets"])})


def walk(case: Case, flow: Flow) -> Met:
    """Take the case through the steps, as far as it gets. An error of a step becomes the outcome and is not raised."""
    stage = "export"
    try:
        inputs = model_inputs(case.graph)
        model, sizes = plain_module(case.graph), open_sizes(case.graph)
        program = torch.export.export(model, inputs, dynamic_shapes=sizes, strict=flow.strict)
        stage = "quantize"
        quantizer = flow.quantizer(case.precision or "")
        if quantizer is not None:
            program = _quantised(program, quantizer, inputs, case.graph)
        wanted = _listed(program.module()(*inputs))
        stage = "lower"
        lowered = flow.lower(program, dict(case.options))
        stage = "run"
        given = flow.run(lowered.handle, inputs)
    except NoWay as error:
        return Met(case.id, NO_WAY, stage, str(error))
    except Exception as error:  # noqa: BLE001  (whatever somebody's release raises is the answer)
        return Met(case.id, ERROR, stage, _told(error))
    left = tuple(sorted({name for name in lowered.targets if name not in NO_WORK | COPIES and "getitem" not in name}))
    end = LEFT if not lowered.delegates else PARTLY if left else DELEGATED
    met = Met(case.id, end, stage, "", left, lowered.delegates)
    step = None if quantizer is None else largest_step(program)
    wrong = None if given is None else differing(given, wanted, step)
    return met if wrong is None else replace(met, end=WRONG, stage="numbers", said=wrong)


def _told(error: BaseException) -> str:
    """The first error of the chain: passes wrap it in errors whose messages are all alike."""
    while error.__cause__ is not None:
        error = error.__cause__
    return f"{type_name(error)}: {message(error)}"


def open_sizes(graph: Graph) -> Any:
    """The dynamic shapes for `torch.export`; None if all sizes are static."""
    if not any(value.dynamic for value in graph.inputs):
        return None
    return tuple(dict.fromkeys(value.dynamic, torch.export.Dim.DYNAMIC) for value in graph.inputs)


def _quantised(program: ExportedProgram, quantizer: Any, inputs: Sequence[Tensor], graph: Graph) -> ExportedProgram:
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e  # optional

    prepared = prepare_pt2e(program.module(check_guards=False), quantizer)
    prepared(*inputs)
    return torch.export.export(convert_pt2e(prepared), tuple(inputs), dynamic_shapes=open_sizes(graph))


def _listed(outputs: Any) -> list[Tensor]:
    return [outputs] if isinstance(outputs, Tensor) else list(outputs)


def largest_step(program: ExportedProgram) -> float:
    """The largest scale with which an output is dequantized; 0 if none is."""
    (output,) = (node for node in program.graph.nodes if node.op == "output")
    last = [node for node in output.all_input_nodes if "dequantize_per_tensor" in str(node.target)]
    return max((float(node.args[1]) for node in last if isinstance(node.args[1], float)), default=0.0)


def differing(given: Sequence[Tensor], wanted: Sequence[Tensor], step: float | None) -> str | None:
    """How the outputs differ from those of torch; None if they agree within the bounds above.

    step: the largest scale of an output, if the program is quantized; else None.
    """
    if len(given) != len(wanted):
        return f"found {len(given)} outputs, expected {len(wanted)}"
    for place, (mine, right) in enumerate(zip(given, wanted, strict=True)):
        if (mine.dtype, mine.shape) != (right.dtype, right.shape):
            return (
                f"output {place}: found {mine.dtype} {tuple(mine.shape)}, expected {right.dtype} {tuple(right.shape)}"
            )
        if found := _apart(mine, right, step):
            return f"output {place}: {found}"
    return None


def _apart(given: Tensor, wanted: Tensor, step: float | None) -> str | None:
    kind = str(wanted.dtype).removeprefix("torch.")
    if not wanted.is_floating_point():
        count = int((given != wanted).sum())
        return f"{count} of {wanted.numel()} numbers differ from torch's" if count else None
    given, wanted = given.to(torch.float64), wanted.to(torch.float64)
    finite = wanted.isfinite()
    if not torch.equal(given[~finite].nan_to_num(nan=math.pi), wanted[~finite].nan_to_num(nan=math.pi)):
        return "found other numbers where torch's are NaN or infinite"
    most = float(wanted[finite].abs().max()) if finite.any() else 0.0
    bound = 1e-6 + (most * BOUNDS.get(kind, REAL_BOUND) if step is None else STEPS * max(step, most / CODES))
    largest = float((given - wanted)[finite].abs().max()) if finite.any() else 0.0
    return (
        None
        if largest <= bound
        else f"numbers differ by up to {largest:.4g} from torch's, expected at most {bound:.4g}"
    )
