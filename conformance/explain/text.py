"""An explanation as lines of at most 100 columns: the answer of each backend first, then why, and what was seen."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from textwrap import wrap

from npu_assay.conformance.common.escaped import plain, shorten
from npu_assay.conformance.common.grouping import grouped_by
from npu_assay.conformance.explain.record import Explained, Explanation, Layer, Operator
from npu_assay.conformance.explain.summary import Module, module_tree, number_rows, summary_rows
from npu_assay.conformance.explain.view import (
    answer,
    cause_lines,
    counted,
    known_of,
    listed,
    lost,
    notes,
    place,
    places,
    title,
    worth_a_word,
)

WIDTH = 100
ANSWER = 2 * WIDTH - 20  # characters: two lines
LINES, EACH, WARNED = 60, 9, 6
"""Most lines for three backends, for each one more, and for warnings; backends share what the answers leave."""
SIZES = ("parameters", "program, bytes", "planned memory, bytes")
"""The rows of the table that the answers do not have."""
LAYERS = 2
MORE = "-v lists all"
LISTS = ("and also", "left out with it")


def explanation_lines(explanation: Explanation, verbose: bool = False) -> list[str]:
    """Everything, the answer first; not verbose: what fits on a screen of each backend, and how much more there is."""
    lines = [plain(explanation.model)]
    for one in explanation.backends:
        lines += _wrapped(line if verbose else shorten(line, ANSWER) for line in answer(one))
    lines += ["", *_table(explanation, verbose)]
    silences = [*_wrapped(f"{listed(names)}: {why}" for names, why in notes(explanation, "silence"))]
    warned = [*_wrapped(f"{listed(names)}: warning: {text}" for names, text in notes(explanation, "warnings"))]
    lines += silences
    heard = (any(worth_a_word(one.layers)) and _is_heard(one, verbose) for one in explanation.backends)
    told = [one for one, is_heard in zip(explanation.backends, heard, strict=True) if one.causes or is_heard]
    most = LINES + EACH * max(0, len(explanation.backends) - 3) - len(lines)
    most -= min(len(warned), WARNED) + 2 if warned else 0
    for one in told:
        section = _all_of(one) if verbose else _part_of(one, max(3, most // len(told) - 2))
        lines += ["", f"{plain(one.backend)}{' (quantized here)' if one.quantized else ''}", *section]
    return [*lines, *([""] if warned else []), *(warned if verbose else _cut(warned, WARNED))]


def _table(explanation: Explanation, verbose: bool) -> Iterator[str]:
    """Names of backends over their sizes and numbers, in columns."""
    sizes = (row for row in summary_rows(explanation) if row[0] in SIZES)
    known = any(not one.is_unknown for one in explanation.backends)
    body = summary_rows(explanation) if verbose else (*(sizes if known else ()), *number_rows(explanation))
    rows = [("", *(plain(one.backend) for one in explanation.backends)), *body]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows if len(rows) > 1 else ():
        cells = (cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))
        yield f"{row[0].ljust(widths[0])}  {'  '.join(cells)}".rstrip()


def _cut(lines: Sequence[str], most: int, indent: int = 0) -> list[str]:
    """The first lines, and a last one if there are more."""
    return [*lines[:most], *([f"{' ' * indent}... {MORE}"] if len(lines) > most else [])]


# ------------------------------------------------------------------------------------ one backend


def _part_of(one: Explained, most: int) -> list[str]:
    """The first causes, then the worst layers, in so many lines."""
    blocks = [_cause(number, one, verbose=False) for number in range(1, len(one.causes) + 1)]
    found, told = list[str](), 0
    for block in blocks:
        if found and len(found) + len(block) > most - 1:
            break
        found, told = [*found, *_cut(block, max(1, most - 2), 2)], told + 1
    left = len(blocks) - told
    found += [f"  ... and {counted(left, 'cause')} more: {MORE}"] if left else []
    layers = [*_layers(one.layers, LAYERS)] if _is_heard(one) else []
    return [*found, *(_cut(layers, most - len(found) - 1, 2) if most - len(found) > LAYERS else [])]


def _all_of(one: Explained) -> list[str]:
    """Every cause with all its operators, every layer that lost something, every module."""
    causes = [line for number in range(1, len(one.causes) + 1) for line in _cause(number, one, verbose=True)]
    tree = [*_branch(module_tree(one.operators), 1)] if one.causes else []
    return [*causes, *_layers(one.layers, len(one.layers)), *tree]


def _cause(number: int, one: Explained, verbose: bool) -> list[str]:
    cause, known = one.causes[number - 1], known_of(one)
    lines = [*cause_lines(number, one)]
    roots = [f"at {each}" for each in places(cause, known)]
    lines = roots + lines if verbose else [_short(line) for line in lines]
    return [*_wrapped([f"{number}. {title(cause, known)}"], 2), *_wrapped(lines, 5)]


def _short(line: str) -> str:
    """A line that lists things in what fits; what to do is never cut."""
    return shorten(line, WIDTH - 5) if line.startswith(LISTS) else line


def _is_heard(one: Explained, verbose: bool = False) -> bool:
    """Whether errors of layers say anything: not where the results carry nothing of the model."""
    return verbose or not one.silence


def _layers(layers: Sequence[Layer], most: int) -> Iterator[str]:
    """The layers where error enters, the worst first."""
    seen, hidden = worth_a_word(layers)
    for heading, found in (
        ("error enters (what a layer adds: at the results of the model, and by itself):", seen),
        ("error that is hardly seen in the results (there, and by itself):", hidden),
    ):
        if found:
            yield f"  {heading}"
        for one in found[:most]:
            yield shorten(f"    {lost(one)}  {plain(place(one))}", WIDTH)
            yield from _wrapped(one.cures, 6)
        if len(found) > most:
            yield f"    ... and {counted(len(found) - most, 'layer')} more: {MORE}"


def _wrapped(lines: Iterable[str], indent: int = 0) -> Iterator[str]:
    """Lines, long ones continued under their beginning."""
    for line in lines:
        before = " " * (indent + len(line) - len(line.lstrip()))
        yield from wrap(plain(line.strip()), WIDTH, initial_indent=before, subsequent_indent=before + "    ")


# ------------------------------------------------------------------------------------ modules


def _branch(module: Module, depth: int) -> Iterator[str]:
    """A module with how much of it is delegated; what is not whole with its parts."""
    before = "  " * depth
    yield f"{before}{plain(module.label)}  {module.taken} of {len(module.operators)} delegated"
    parts = () if module.whole else module.parts
    alike = grouped_by((part for part in parts if isinstance(part, Operator)), _kind)
    for part in parts:
        if isinstance(part, Module):
            yield from _branch(part, depth + 1)
        elif (group := alike[_kind(part)])[0] is part:
            yield shorten(f"  {before}{_leaf(group)}", WIDTH)


def _kind(one: Operator) -> tuple[object, ...]:
    """What is alike of the operators of an unrolled loop, which have a delegate each."""
    return one.operator, one.shape, one.delegate is None, one.cause, tuple(reason.code for reason in one.reasons)


def _leaf(group: Sequence[Operator]) -> str:
    """Operators that are alike: name, size, and their delegates, or their cause."""
    one = group[0]
    head = f"{plain(one.operator)} {'x'.join(map(str, one.shape))} "
    times = f" ({len(group)} times)" if len(group) > 1 else ""
    delegates = sorted({each.delegate for each in group if each.delegate is not None})
    if delegates:
        which = f"delegate {delegates[0]}" if len(delegates) == 1 else f"delegates {delegates[0]} to {delegates[-1]}"
        return f"{head} {which}{times}"
    why = f"cause {one.cause + 1}" if one.cause is not None else "no cause"
    codes = ", ".join(reason.code for reason in one.reasons)
    return f"{head} {why} {plain(codes)}{times}"
