"""The second golden: `onnx.reference` checks the float golden wherever ONNX has the operator.

Both compute each step of a case's graph in float64, from the same real operands. Where they differ, one of the goldens
is wrong, so a comparison with them says nothing about the backend. The process that judges a case runs this once;
the process of the backend does not.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from npu_assay.conformance.judge.float_golden import real_value
from npu_assay.conformance.programs.graph import Graph, Ref, substitute
from npu_assay.conformance.record.results import GOLDEN, Failure
from npu_assay.reference import golden, onnx_golden
from npu_assay.reference.golden import Bounded, GoldenError
from npu_assay.reference.golden.special import unknown
from npu_assay.reference.operators.lookup import is_indices

Compare = Callable[..., str | None]
MOST = 2**17
"""Numbers that are compared: `onnx.reference` computes larger results for seconds, and smaller ones say as much."""


def golden_failures(graph: Graph) -> list[Failure]:
    """A failure of the check `golden` for each step on which the goldens differ: the suite's, never the backend's.

    A step that `onnx.reference` or the float golden cannot compute is not compared. Takes about 0.3 ms per case.
    """
    try:
        found = disagreements(graph, _compared)
    except GoldenError:  # which the gates tell
        return []
    return [Failure(GOLDEN, f"the goldens disagree: {message}; nothing follows for the backend") for message in found]


def disagreements(graph: Graph, compare: Compare = onnx_golden.disagreement) -> tuple[str, ...]:
    """Where `onnx.reference` contradicts the float golden on a step of this graph.

    Steps whose operator ONNX lacks (`without_onnx`), and those with more results than `MOST`, are passed over.
    Raises GoldenError for an operator without a float golden, and whatever `compare` raises.
    """
    reals: dict[Ref, Bounded] = {Ref(value.name): real_value(value) for value in graph.values}
    found = []
    for step in graph.steps:
        args, kwargs = substitute(step.args, reals.__getitem__), dict(step.kwargs)
        results = golden.run(step.op, args, kwargs)
        reals.update({Ref(step.name, index): result for index, result in enumerate(results)})
        if sum(result.value.numel() for result in results) > MOST:
            continue
        open_ = [_open(step.op, index, result) for index, result in enumerate(results)]
        message = compare(step.op, golden.values(args), [result.value for result in results], kwargs, open_)
        found += [f"{step.name}: {message}"] if message else []
    return tuple(found)


def _open(op: str, index: int, result: Bounded) -> Tensor:
    """Where any value of a result is right: indices among equal numbers, and numbers without a bound."""
    return result.spread().isinf() if is_indices(op, index) else unknown(result)


def _compared(*asked: object) -> str | None:
    """`onnx_golden.disagreement`, or None where `onnx.reference` raises an error."""
    try:
        return onnx_golden.disagreement(*asked)  # type: ignore[arg-type]  # what `Compare` is called with
    except Exception:  # noqa: BLE001  (its operators raise whatever numpy does)
        return None
