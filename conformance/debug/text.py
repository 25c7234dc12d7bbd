"""A case as text: the program, what became of each of its operators, and each output beside what it must be."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from npu_assay.conformance.debug.one import Debugged
from npu_assay.conformance.fuzz.text import graph_text
from npu_assay.conformance.judge.gates import subscript
from npu_assay.conformance.judge.integer_golden import affine
from npu_assay.conformance.judge.numerics import Golden, golden
from npu_assay.conformance.programs.graph import Quant
from npu_assay.conformance.record.results import because, promise
from npu_assay.conformance.run.answering import FIRST
from npu_assay.conformance.run.outline import on_integers
from npu_assay.reference.golden.bounded import Bounded

ELEMENTS = 12  # shown of each output: those that are furthest off


def lines(found: Debugged) -> Iterator[str]:
    """All of it."""
    case, result = found.case, found.result
    yield case.id
    said = f"{result.verdict}{because(result.reasons or ())}"
    yield f"the table promises: {promise(case)}; the backend says: {said}"
    yield ""
    yield "program"
    yield from (f"  {line}" for line in graph_text(case.graph).splitlines())
    yield ""
    yield from _partitions(found)
    yield from _outputs(found)
    yield from result_lines(found)


def result_lines(found: Debugged) -> Iterator[str]:
    """What a run would record: status, failures, numbers."""
    result = found.result
    metrics = {name: value for name, value in result.metrics.items() if value is not None}
    if metrics:
        yield f"measured: {', '.join(f'{name} {value}' for name, value in metrics.items())}"
    yield from map(str, result.failures)
    yield f"{result.status}: {result.case}"


def _partitions(found: Debugged) -> Iterator[str]:
    """The operators after the backend's passes, each with where it runs."""
    tags = found.answer.tags
    if not found.answer.nodes:
        return
    yield "after the passes" if tags is None else "after the passes, and where each operator runs"
    names = {tag: f"delegate {place}" for place, tag in enumerate(dict.fromkeys((tags or {}).values()))}
    width = max(len(node.name) for node in found.answer.nodes)
    for node in found.answer.nodes:
        place = "" if tags is None else f"  [{names.get(tags.get(node.name, ''), 'torch')}]"
        yield f"  {node.name:<{width}} = {node.target}({', '.join(node.inputs)}){place}"
    blobs = found.answer.blobs or ()
    if blobs:
        yield f"  compiled to {', '.join(f'{len(blob)} bytes' for blob in blobs)}"
    yield ""


# ------------------------------------------------------------------------------------ both answers


def _outputs(found: Debugged) -> Iterator[str]:
    """Every output of the first run, element by element beside the goldens; why there is none, if so."""
    outputs = found.answer.runs.get(FIRST)
    if outputs is None:
        yield "no outputs: nothing ran"
        yield ""
        return
    delegated = found.result.verdict == "accept" and on_integers(found.answer.nodes, found.answer.tags or {})
    scheme = found.table.rescale or None
    known = golden(found.case.graph)
    walk = known.walk(scheme, delegated)
    codes = _codes(known, scheme, delegated, len(walk.bounded))
    for index, (expected, output) in enumerate(zip(walk.bounded, outputs, strict=False)):
        yield f"output {index}: {list(output.shape)} {str(output.dtype).removeprefix('torch.')}"
        if expected.value.shape != output.shape:
            yield f"  expected the shape {list(expected.value.shape)}"
        else:
            yield from _table(output, expected, codes[index], walk.quants[index])
        yield ""


def _codes(known: Golden, scheme: str | None, delegated: bool, count: int) -> Sequence[Tensor | None]:
    """The exact codes of each output, where the table's scheme and the tags let them be known."""
    return known.codes(scheme) if scheme is not None and delegated else (None,) * count


def _table(output: Tensor, expected: Bounded, codes: Tensor | None, quant: Quant | None) -> Iterator[str]:
    """The elements that are furthest off, in order of their distance, then of their place."""
    real, value, bound = output.to(torch.float64), expected.value, expected.spread()
    distance = (real - value).abs().nan_to_num(nan=float("inf")).flatten()
    order = torch.argsort(distance, descending=True, stable=True)[:ELEMENTS].tolist()
    found_codes = None
    if quant is not None and quant.axis is None:
        found_codes = (real / affine(quant).scale32).round() + quant.zero_point
    head = ["element", "found", "expected", "bound", *(["code", "exact code"] if found_codes is not None else [])]
    rows = [head]
    for place in order:
        numbers = [real.flatten()[place], value.flatten()[place], bound.flatten()[place]]
        row = [subscript(output, place), *(f"{float(number):.7g}" for number in numbers)]
        if found_codes is not None:
            exact = "unknown" if codes is None else str(int(codes.flatten()[place]))
            row += [f"{float(found_codes.flatten()[place]):g}", exact]
        rows.append(row)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  " + "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))
    if output.numel() > ELEMENTS:
        yield f"  the {ELEMENTS} of {output.numel()} elements that are furthest from what is expected"
