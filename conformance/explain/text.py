"""An explanation in a terminal: one table of all backends, then causes and modules of each, within 100 columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from textwrap import wrap

from rich.console import Console
from rich.markup import escape
from rich.tree import Tree

from npu_assay.conformance.common.escaped import counted, plain
from npu_assay.conformance.explain.cures import POOR, SEEN
from npu_assay.conformance.explain.layers import INPUT
from npu_assay.conformance.explain.record import Cause, Explained, Explanation, Layer, Operator
from npu_assay.conformance.explain.summary import MODEL, Module, added, module_tree, short, summary_rows
from npu_assay.conformance.pte.text import print_table

WIDTH = 100
SHOWN = 6  # operators of a cause
CAUSES = 12
LAYERS = 5
PLACE = 84  # characters


def print_explanation(console: Console, explanation: Explanation) -> None:
    """Everything, the answer first."""
    console.print(f"[bold]{_safe(explanation.model)}[/]", highlight=False)
    names = [one.backend for one in explanation.backends]
    print_table(console, ("", *names), list(summary_rows(explanation)), right=range(1, len(names) + 1))
    for one in explanation.backends:
        _print_backend(console, one)


# ------------------------------------------------------------------------------------ one backend


def _print_backend(console: Console, one: Explained) -> None:
    console.print(f"\n[bold]{_safe(one.backend)}[/]{' (quantized here)' if one.quantized else ''}", highlight=False)
    if one.error:
        console.print(f"  [red]{_safe(one.error)}[/]", highlight=False)
    _print(console, (f"warning: {each}" for each in one.warnings))
    if not one.operators:
        return
    _print_causes(console, one)
    _print(console, layer_lines(one.layers))


def _print_causes(console: Console, one: Explained) -> None:
    if not one.causes:
        console.print("  every operator is delegated", highlight=False)
        return
    known = {operator.name: operator for operator in one.operators}
    for number, cause in enumerate(one.causes[:CAUSES], 1):
        _print(console, cause_lines(number, cause, known))
    if len(one.causes) > CAUSES:
        console.print(f"  ... and {counted(len(one.causes) - CAUSES, 'cause')} more, see explain.json")
    console.print(_branch(module_tree(one.operators)))


def cause_lines(number: int, cause: Cause, known: dict[str, Operator]) -> Iterator[str]:
    """A cause: what it is, what it costs, whom it is about, what follows, what would help."""
    yield f"{number}. {cause}"
    cost = f"{counted(len(cause.operators), 'operator')}, {cause.macs:,} multiply-accumulates"
    yield f"   costs {cost}, {cause.bytes:,} bytes over borders"
    places = Counter(place(known[name]) for name in cause.roots)
    for where, count in list(places.items())[:SHOWN]:
        yield f"   {where}{_times(count)}"
    if len(places) > SHOWN:
        yield f"   ... and {sum(list(places.values())[SHOWN:])} more"
    if cause.follows:
        follows = Counter(_short(known[name]) for name in cause.follows)
        first = ", ".join(f"{name}{_times(count)}" for name, count in list(follows.items())[:SHOWN])
        more = f" and {sum(list(follows.values())[SHOWN:])} more" if len(follows) > SHOWN else ""
        yield f"   left out with it: {first}{more}"
    if cause.change is not None:
        won = f"{counted(cause.change.operators, 'operator')} and {cause.change.macs:,} multiply-accumulates"
        yield f"   what if: {cause.change.text}: {won} would be taken"
    if cause.hint:
        yield f"   {cause.hint}"


def _times(count: int) -> str:
    return f" ({count} times)" if count > 1 else ""


def layer_lines(layers: Sequence[Layer]) -> Iterator[str]:
    """The layers that lose much by themselves or at the results, or have something wrong, and what would help."""
    told = [one for one in layers if one.infinite or one.cures or _is_less(one.effect, SEEN) or _is_less(one.own, POOR)]
    seen = [one for one in told if one.infinite or one.effect is None or one.effect < SEEN]
    yield from _listed("error enters (what a layer adds: at the results of the model, and by itself):", seen)
    yield from _listed(
        "error that is hardly seen in the results (there, and by itself):", [one for one in told if one not in seen]
    )


def _is_less(decibels: float | None, limit: float) -> bool:
    return decibels is not None and decibels < limit


def _listed(title: str, layers: Sequence[Layer]) -> Iterator[str]:
    if layers:
        yield title
    for one in layers[:LAYERS]:
        lost = "infinite" if one.infinite else added(one)
        yield f"  {lost}  {shorten(place(one), PLACE - len(lost))}"
        yield from (f"    {cure}" for cure in one.cures)
    if len(layers) > LAYERS:
        yield f"  ... and {counted(len(layers) - LAYERS, 'layer')} more, see explain.html or explain.json"


def place(one: Operator | Layer) -> str:
    """An operator by the user's names: module and class, operator, line."""
    if one.operator == INPUT:
        return f"the input {one.name}"
    line = f"  {one.source}: {one.code}" if one.source else ""
    return shorten(f"{one.module or MODEL} ({one.kind or 'unknown'})  {one.operator}{line}", PLACE)


def shorten(text: str, most: int) -> str:
    """The text, without its end where it is too long for a line."""
    return text if len(text) <= most else f"{text[: most - 3]}..."


def _short(one: Operator) -> str:
    return f"{one.module or MODEL} {short(one.operator)}"


def _print(console: Console, lines: Iterable[str]) -> None:
    """Lines, long ones continued under their beginning."""
    for line in lines:
        indent = " " * (len(line) - len(line.lstrip()) + 2)
        for part in wrap(plain(line), WIDTH - 2, subsequent_indent=indent + "  "):
            console.print(f"  {escape(part)}", highlight=False)


def _safe(text: str) -> str:
    return escape(plain(text))


# ------------------------------------------------------------------------------------ modules


def _branch(module: Module) -> Tree:
    """A module with how much of it is delegated; what is not whole with its parts."""
    colour = "green" if module.whole else "yellow" if module.taken else "red"
    count = f"{module.taken} of {len(module.operators)} delegated"
    parts = () if module.whole else module.parts
    tree = Tree(f"{_safe(module.label)}  [{colour}]{count}[/]")
    alike: dict[tuple[object, ...], list[Operator]] = {}
    for part in parts:
        if isinstance(part, Operator):
            alike.setdefault(_kind(part), []).append(part)
    for part in parts:
        if isinstance(part, Module):
            tree.add(_branch(part))
        elif (group := alike[_kind(part)])[0] is part:
            tree.add(_leaf(group))
    return tree


def _kind(one: Operator) -> tuple[object, ...]:
    """What is alike of the operators of an unrolled loop, which have a delegate each."""
    return one.operator, one.shape, one.delegate is None, one.cause, tuple(reason.code for reason in one.reasons)


def _leaf(group: Sequence[Operator]) -> str:
    """Operators that are alike: name, size, and their delegates, or their cause."""
    one = group[0]
    head = f"{_safe(one.operator)} {'x'.join(map(str, one.shape))} "
    delegates = sorted({each.delegate for each in group if each.delegate is not None})
    if delegates:
        which = f"delegate {delegates[0]}" if len(delegates) == 1 else f"delegates {delegates[0]} to {delegates[-1]}"
        return f"{head} [green]{which}[/]{_times(len(group))}"
    why = f"cause {one.cause + 1}" if one.cause is not None else "no cause"
    codes = ", ".join(reason.code for reason in one.reasons)
    return f"{head} [red]{why}[/] {_safe(codes)}{_times(len(group))}"
