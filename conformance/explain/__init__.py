"""Explaining a user's model: what backends take of it, why not the rest, what that costs, what is left of its numbers.

from npu_assay.conformance.explain import explain

explanation = explain(program, ["neutron", "xnnpack"], samples=[(image,)])
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from npu_assay.conformance.backend.loading import load_whole
from npu_assay.conformance.explain.record import Explanation

if TYPE_CHECKING:
    from torch.export import ExportedProgram

    from npu_assay.partitioners.exir import Backend

__all__ = ["Explanation", "explain"]


def explain(
    program: ExportedProgram,
    backends: Sequence[str | Backend],
    samples: Sequence[Any] | None = None,
    *,
    dynamic: bool = False,
    inputs: Sequence[Any] | None = None,
) -> Explanation:
    """What each backend takes of an exported program, in this process.

    `samples` are inputs to calibrate with: each backend's quantizer quantizes the program first. Without them it is
    taken as it is. It runs on `inputs`, else on the samples, else on random numbers. `dynamic` leaves activations to be
    quantized at run time. Samples and inputs are tuples, dicts of inputs by name, or pairs of both. What a backend
    raises is in its part of the answer (`error`). Raises UsageError for a backend that cannot be loaded, and for inputs
    that the program does not take; TypeError for a module that is not exported, and for backends or samples that are
    not in a list.
    """
    from npu_assay.conformance.explain.explaining import How, explained  # loads torch, as what follows does
    from npu_assay.conformance.explain.inputs import fitting
    from npu_assay.conformance.explain.models import model_of

    _check_types(program, backends, samples, inputs)
    given = None if samples is None else fitting(program, "samples", samples)
    model = model_of(program, fitting(program, "inputs", inputs) if inputs else given)
    loaded = [load_whole(each) if isinstance(each, str) else each for each in backends]
    return Explanation(model.name, tuple(explained(model, each, given, How(dynamic))[0] for each in loaded))


def _check_types(program: object, backends: object, *given: object) -> None:
    """Raise TypeError for what is easily given by mistake. given: samples and inputs, None if left out."""
    from torch.export import ExportedProgram  # as above

    if not isinstance(program, ExportedProgram):
        raise TypeError(f"program: found a {type(program).__name__}, expected what torch.export.export returns")
    if isinstance(backends, str) or not isinstance(backends, Sequence):
        raise TypeError(f"backends: found a {type(backends).__name__}, expected a list of names and backends")
    for each in backends:
        if not isinstance(each, str) and not hasattr(each, "partitioner"):
            raise TypeError(f"backends: found a {type(each).__name__}, expected a name or a Backend")
    for each in given:
        if each is not None and not isinstance(each, (list, tuple)):
            raise TypeError(f"samples, inputs: found a {type(each).__name__}, expected a list of them")
