"""Devices that are wrong past a size alone: the cases past it notice, and no other case of the row does."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from math import prod
from typing import Any

import pytest
import torch
from torch import Tensor

from npu_assay.conformance.backend.loading import load_backend
from npu_assay.conformance.cases.variants.thresholds import CHANNELS, ELEMENTS, FIXED, SUMS, grown, twice
from npu_assay.conformance.programs.graph import Case, Graph
from npu_assay.conformance.run.one_case import run_case
from npu_assay.conformance.run.selection import all_cases
from npu_assay.conformance.table import load_table
from npu_assay.partitioners.exir import CompileSpec, Runtime

Fault = Callable[[Sequence[Tensor], Callable[[Sequence[Tensor]], list[Tensor]]], list[Tensor]]
PAST = re.compile(
    r"/(elements_past_\d+|channels_\d+|sums_(of|past)_\d+|two_results|operand_returned|max_(input_)?rank/accept/rank_\d+)$"
)
OLDER = 40  # cases, at most


@dataclass(frozen=True)
class Faulty:
    """A runtime with a fault around it."""

    runtime: Runtime
    fault: Fault

    def load(self, processed_bytes: bytes, compile_specs: Sequence[CompileSpec]) -> Any:
        return self.runtime.load(processed_bytes, compile_specs)

    def execute(self, handle: Any, inputs: Sequence[Tensor]) -> list[Tensor]:
        return self.fault(inputs, lambda given: list(self.runtime.execute(handle, given)))


def table_of_4096_entries(inputs: Sequence[Tensor], run: Callable[[Sequence[Tensor]], list[Tensor]]) -> list[Tensor]:
    """Elements past the 4,096th are those of the first tile."""
    return [_tiled(output) for output in run(inputs)]


def _tiled(output: Tensor) -> Tensor:
    flat = output.flatten()
    if len(flat) <= ELEMENTS:
        return output
    return flat[torch.arange(len(flat)) % ELEMENTS].reshape(output.shape)


def blocks_without_a_tail(block: int) -> Fault:
    """Channels behind whole blocks are as the one in front of them, for want of a loop over the rest."""

    def run_blocks(inputs: Sequence[Tensor], run: Callable[[Sequence[Tensor]], list[Tensor]]) -> list[Tensor]:
        return [_without_tail(output, block) for output in run(inputs)]

    return run_blocks


def _without_tail(output: Tensor, block: int) -> Tensor:
    whole = output.shape[1] // block * block if output.dim() > 1 else 0
    if not whole or whole == output.shape[1]:
        return output
    kept = output.clone()
    kept[:, whole:] = output[:, whole - 1 : whole]
    return kept


def counter_of_16_bits(inputs: Sequence[Tensor], run: Callable[[Sequence[Tensor]], list[Tensor]]) -> list[Tensor]:
    """A product sums as many terms as a counter of 16 bits holds of them."""
    return run([_counted(x) for x in inputs])


def _counted(x: Tensor) -> Tensor:
    if not x.dim() or x.shape[-1] <= SUMS:
        return x
    counted = x.clone()
    counted[..., x.shape[-1] % SUMS :] = 0
    return counted


def strides_of_six(rank: int) -> Fault:
    """Tensors of one rank have their last two axes in the order of memory."""

    def run_ranks(inputs: Sequence[Tensor], run: Callable[[Sequence[Tensor]], list[Tensor]]) -> list[Tensor]:
        outputs = run(inputs)
        return [y if y.dim() != rank else y.flip(tuple(range(rank))) for y in outputs]

    return run_ranks


def outputs_exchanged(inputs: Sequence[Tensor], run: Callable[[Sequence[Tensor]], list[Tensor]]) -> list[Tensor]:
    """The last output comes first."""
    return run(inputs)[::-1]


@cache
def cases_of(backend: str, row: str) -> tuple[tuple[Case, ...], tuple[Case, ...]]:
    """A row's accepted cases past a size, and the others."""
    cases = all_cases(load_table(load_backend(backend).table))
    mine = [case for case in cases if case.row == row and case.expect == "accept" and not case.options]
    return tuple(c for c in mine if PAST.search(c.id)), tuple(c for c in mine if not PAST.search(c.id))


def noticed(backend: str, fault: Fault, cases: Sequence[Case]) -> list[str]:
    """The cases that a backend with this fault fails."""
    right = load_backend(backend)
    faulty = replace(right, runtime=Faulty(right.runtime, fault))
    table = load_table(right.table)
    return [case.id.rpartition("/")[2] for case in cases if run_case(case, faulty, table).failures]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("backend", "row", "fault", "by"),
    [
        ("neutron", "aten.abs.default", table_of_4096_entries, {"elements_past_4096"}),
        ("xnnpack", "aten.maximum.default", table_of_4096_entries, {"elements_past_4096"}),
        ("ethos-u85", "aten.cat.default", table_of_4096_entries, {"elements_past_4096"}),
        ("xnnpack", "aten.max_pool2d.default", blocks_without_a_tail(32), {"channels_33"}),
        ("ethos-u85", "aten.convolution.default", blocks_without_a_tail(16), {"channels_17", "channels_33"}),
        ("neutron", "aten.mm.default", counter_of_16_bits, {"sums_of_65537"}),
        ("xnnpack", "aten.linear.default", counter_of_16_bits, {"sums_of_65537"}),
        ("ethos-u85", "aten.mm.default", counter_of_16_bits, {"sums_of_65537"}),
        ("neutron", "aten.abs.default", strides_of_six(7), {"rank_7"}),
        ("xnnpack", "aten.add.Tensor", strides_of_six(5), {"rank_5"}),
        (
            "xnnpack",
            "quantized_decomposed.quantize_per_tensor.default",
            outputs_exchanged,
            {"two_results", "operand_returned"},
        ),
    ],
)
def test_only_the_cases_past_a_size_notice_a_fault_there(backend: str, row: str, fault: Fault, by: set[str]) -> None:
    past, others = cases_of(backend, row)
    assert set(noticed(backend, fault, past)) == by
    assert noticed(backend, fault, others[:OLDER]) == []


# ------------------------------------------------------------------------------------ what there is

BACKENDS = ("neutron", "xnnpack", "ethos-u55", "ethos-u85")


def elements(graph: Graph) -> int:
    return max((prod(value.shape) for value in graph.values if not value.constant), default=0)


@pytest.mark.parametrize("backend", BACKENDS)
def test_every_row_has_cases_past_4096_elements_and_with_two_outputs(backend: str) -> None:
    table = load_table(load_backend(backend).table)
    accepted = [case for case in all_cases(table) if case.expect == "accept"]
    large = {case.row for case in accepted if elements(case.graph) > ELEMENTS}
    two = {case.row for case in accepted if len(case.graph.outputs) > 1}
    rows = {row.name for row in table.rows}
    assert rows - large == rows & FIXED
    assert rows - two == set()


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_has_channels_or_columns_has_more_than_16_and_32(backend: str) -> None:
    ids = {case.id for case in all_cases(load_table(load_backend(backend).table)) if "/operator/accept/" in case.id}
    of_16, of_32 = (
        {case.partition("/")[0] for case in ids if re.search(rf"/channels_({threshold + 1}|{threshold + 8})$", case)}
        for threshold in CHANNELS
    )
    assert of_16 == of_32 and len(of_16) >= 7


@pytest.mark.parametrize("backend", BACKENDS)
def test_ranks_have_no_gap(backend: str) -> None:
    """From 3 to the row's limit, where the row has one that is about ranks alone."""
    ranks: dict[str, set[int]] = {}
    limited = set[str]()
    for case in all_cases(load_table(load_backend(backend).table)):
        if case.expect == "accept":
            found = {len(value.shape) for value in case.graph.values if not value.constant}
            ranks.setdefault(case.row, set()).update(found)
            limited |= {case.row} if case.constraint == "max_rank" else set()
    assert {row for row in limited if not ranks[row] >= set(range(3, max(ranks[row]) + 1))} == set()


def test_scales_are_repeated_along_the_axis_that_grows() -> None:
    case = next(c for c in cases_of("neutron", "aten.convolution.default")[1] if c.id.endswith("/baseline"))
    (w,) = (value for value in case.graph.values if value.name == "w")
    (more,) = (value for value in grown(case.graph, (("w", 0),), 12).values if value.name == "w")
    assert w.quant is not None and more.quant is not None and isinstance(w.quant.scale, tuple)
    assert more.shape == (12, *w.shape[1:]) and more.quant.scale == (w.quant.scale * 3)[:12]


def test_a_model_beside_itself_has_the_numbers_of_another_seed() -> None:
    graph = next(c for c in cases_of("neutron", "aten.abs.default")[1] if c.id.endswith("/baseline")).graph
    both = twice(graph)
    x, second = both.values
    assert second == replace(x, name="second_x", fill=replace(x.fill, seed=x.fill.seed + 1))
    assert [ref.name for ref in both.outputs] == ["subject", "second_subject"]
