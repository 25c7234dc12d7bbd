"""XNNPACK's options, asked of tables that have them: precisions, configs, one delegate for each operator."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from npu_assay.conformance.cases.drafts import CaseDraft, inside, limit, outside, placed
from npu_assay.conformance.cases.limits import Limits
from npu_assay.conformance.cases.make import SUBJECT, Call, X, model, step
from npu_assay.conformance.cases.pieces.spelling import FLOATS, activations, is_static
from npu_assay.conformance.cases.pieces.subject import FLOAT, PRECISIONS, Subject
from npu_assay.conformance.programs.checks import Refuses
from npu_assay.conformance.programs.graph import Fill, Graph, Ref, Step

# Codes a multiple of 20 above the zero point 3: sums, products and means of them at scale 0.05 are on the grid,
# so that computing in floats and computing in integers agree.
TWENTIES = Fill("list", values=(23, -17, 43, 3, -37, 63, 23, -57, 83, -97))
Options = tuple[tuple[str, Any], ...]


def with_options(draft: CaseDraft, *options: tuple[str, Any]) -> CaseDraft:
    """The draft with keyword arguments for the partitioner."""
    return replace(draft, options=options)


def config_precisions(subject: Subject, precision: str, limits: Limits) -> Iterator[CaseDraft]:
    """Each value alone, and all that its config does not support together.

    The released filter looks at what the operator's config supports, not at the numbers of the graph: an
    operator is left out when none of the named precisions is among those.
    """
    u = subject.call(precision)
    quiet = model(activations(u, fill=TWENTIES)) if is_static(precision) else model(u)
    refused = () if subject.config.as_float or precision in FLOATS else FLOAT
    others = tuple(name for name in PRECISIONS if name not in subject.config.supports)
    for name in first_few(tuple(name for name in subject.config.supports if name not in refused), precision):
        yield with_options(limit("precision", names_label((name,)), quiet), ("config_precisions", (name,)))
    for name in refused:
        draft = replace(outside("precision", names_label((name,)), quiet), reason="static_weights")
        yield with_options(draft, ("config_precisions", (name,)))
    for names in first_few((*((name,) for name in others), *([others] if len(others) > 1 else [])), precision):
        yield with_options(outside("precision", names_label(names), quiet), ("config_precisions", names))


def first_few(choices: tuple[Any, ...], precision: str) -> tuple[Any, ...]:
    """Half precision differs from single precision in numbers only: one of each is enough."""
    return choices[:1] if precision == "fp16" else choices


def option_spellings(subject: Subject, precision: str) -> Iterator[CaseDraft]:
    """Other ways to say which precisions and configs: not in a list, all of them, none of them."""
    graph, first = model(subject.call(precision)), subject.config.supports[0]
    yield with_options(inside("precision", f"{first.lower()}_without_a_list", graph), ("config_precisions", first))
    yield with_options(inside("precision", "all", graph), ("config_precisions", PRECISIONS))
    yield with_options(inside("precision", "empty_list", graph), ("config_precisions", ()))
    yield with_options(
        inside("configs", "own_and_another", graph), ("configs", (another(subject), subject.config.name))
    )
    yield with_options(inside("configs", "empty_list", graph), ("configs", ()))
    both = (
        ("configs", (subject.config.name,)),
        ("config_precisions", (first,)),
        ("per_op_mode", True),
        ("verbose", True),
    )
    yield with_options(inside("configs", "with_every_other_option", graph), *both)


def names_label(names: tuple[str, ...]) -> str:
    """Names in a case id."""
    return "_and_".join(name.lower() for name in names)


def configs(subject: Subject, precision: str, limits: Limits) -> Iterator[CaseDraft]:
    """The operator's own config alone, and only another one."""
    u = subject.call(precision)
    yield with_options(limit("configs", "own", u), ("configs", (subject.config.name,)))
    yield with_options(outside("configs", "another", u), ("configs", (another(subject),)))


def another(subject: Subject) -> str:
    """A config of some other operator."""
    return "CeilConfig" if subject.config.name != "CeilConfig" else "FloorConfig"


def per_op_mode(subject: Subject, precision: str, limits: Limits) -> Iterator[CaseDraft]:
    """One delegate for the whole model, or one for each operator (and each node that quantizes for it)."""
    if is_static(precision) and subject.config.converts:
        return
    u = subject.call(precision)
    graph = model(u) if is_static(precision) else between_two_abs(u)
    inputs = sum(not value.constant for value in u.values)
    apart = inputs + 2 if is_static(precision) else 3
    if precision != "fp16":
        yield replace(placed("all_in_one_delegate", graph), delegates=1)
    draft = replace(placed("one_delegate_per_operator", graph), delegates=apart)
    yield with_options(draft, ("per_op_mode", True))


def between_two_abs(u: Call) -> Graph:
    """An abs before the operator and one after it."""
    before = Step("before", "aten.abs.default", (X,), (), u.x.quant)
    after = Step("after", "aten.abs.default", (Ref(SUBJECT),), (), u.y)
    return Graph(u.values, (before, step(u, Ref("before")), after), (Ref("after"),))


def additional_checks(subject: Subject, precision: str, limits: Limits) -> Iterator[CaseDraft]:
    """A user's own condition, which the operator meets or not."""
    return checked(subject.model(subject.call(precision)), limits)


def checked(graph: Graph, limits: Limits) -> Iterator[CaseDraft]:
    """A user's own condition of a model's step, where the row has such."""
    if "additional_check" not in limits:
        return
    for make, variant, refused in ((limit, "refuses_another_step", "another"), (outside, "refuses_the_step", SUBJECT)):
        made = make("additional_check", variant, graph)
        yield replace(made, options=(("additional_checks", (Refuses(refused),)),))
