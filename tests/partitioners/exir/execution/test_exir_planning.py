"""Memory plans: tensors that are alive together never share a byte, and the arena is as small as it should be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npu_assay.partitioners.exir import ExirError
from npu_assay.partitioners.exir.execution.memory_planning import (
    MemoryPlan,
    Planned,
    Request,
    check_overlaps,
    greedy,
    peak,
    planned,
)

requests = st.lists(
    st.builds(
        lambda size, first, length: (size, first, first + length),
        st.integers(0, 400),
        st.integers(-1, 20),
        st.integers(0, 12),
    ),
    max_size=25,
).map(lambda drawn: [Request(f"t{i}", *one) for i, one in enumerate(drawn)])


def collisions(plan: MemoryPlan) -> list[tuple[str, str]]:
    """Byte by byte and moment by moment: who writes where somebody else is."""
    owners: dict[tuple[int, int], str] = {}
    found = []
    for tensor in plan.tensors:
        r = tensor.request
        for moment in range(r.first, r.last + 1):
            for byte in range(tensor.offset, tensor.offset + r.size):
                other = owners.setdefault((moment, byte), r.name)
                if other != r.name:
                    found.append((other, r.name))
    return found


def busiest(wanted: Sequence[Request]) -> int:
    moments = range(min((r.first for r in wanted), default=0), max((r.last for r in wanted), default=0) + 1)
    return max((sum(r.size for r in wanted if r.first <= m <= r.last) for m in moments), default=0)


@given(requests)
@settings(max_examples=150, deadline=None)
def test_no_two_live_tensors_share_a_byte(wanted: list[Request]) -> None:
    plan = planned(wanted)
    assert collisions(plan) == []
    assert [p.request.name for p in plan.tensors] == [r.name for r in wanted]
    assert all(p.offset % 16 == 0 for p in plan.tensors)
    assert plan.arena_bytes == max((p.end for p in plan.tensors), default=0)


@given(requests)
@settings(max_examples=150, deadline=None)
def test_arena_is_between_what_is_alive_and_everything(wanted: list[Request]) -> None:
    plan = planned(wanted)
    assert plan.peak_bytes == busiest([p.request for p in plan.tensors])
    assert plan.peak_bytes <= plan.arena_bytes <= plan.unshared_bytes
    assert plan.reuse >= 1


@given(requests)
@settings(max_examples=100, deadline=None)
def test_check_finds_what_counting_bytes_finds(wanted: list[Request]) -> None:
    """A plan that gives everybody offset 0 is refused exactly when somebody collides."""
    tensors = tuple(Planned(r, 0) for r in wanted)
    if collisions(MemoryPlan(tensors, 0)):
        with pytest.raises(ExirError, match="overlapping tensors"):
            check_overlaps(tensors)
    else:
        check_overlaps(tensors)


@given(requests)
@settings(max_examples=50, deadline=None)
def test_same_requests_same_plan(wanted: list[Request]) -> None:
    assert planned(wanted) == planned(list(wanted))


def test_chain_needs_two_places() -> None:
    """Each tensor is read by the instruction that writes the next."""
    chain = [Request(f"t{i}", 64, i, i + 1) for i in range(10)]
    plan = planned(chain)
    assert plan.arena_bytes == 128
    assert plan.unshared_bytes == 640
    assert plan.reuse == 5


def test_gap_between_larger_ones_is_used() -> None:
    wanted = [Request("a", 160, 0, 1), Request("b", 320, 0, 3), Request("c", 160, 2, 3), Request("d", 80, 2, 2)]
    assert planned(wanted).arena_bytes == peak(wanted) == 560


def test_sizes_are_aligned_and_empty_tensors_need_nothing() -> None:
    plan = planned([Request("a", 1, 0, 5), Request("b", 17, 0, 5), Request("none", 0, 0, 5)], alignment=64)
    assert plan.arena_bytes == 128
    assert sorted(p.offset for p in plan.tensors[:2]) == [0, 64]


def test_padding_comes_behind_everything() -> None:
    plan = planned([Request("a", 16, 0, 1)], padding=64)
    assert (plan.arena_bytes, plan.padding) == (80, 64)
    assert planned([], padding=64).arena_bytes == 0


def test_shifted_tensor_is_caught() -> None:
    good = planned([Request("a", 64, 0, 2), Request("b", 64, 1, 3)])
    moved = replace(good.tensors[1], offset=good.tensors[0].offset + 48)
    with pytest.raises(ExirError, match=r"a, b|b, a"):
        check_overlaps((good.tensors[0], moved))
    with pytest.raises(ExirError, match="a multiple of 16"):
        check_overlaps((good.tensors[0], replace(moved, offset=200)))


def test_algorithm_of_the_user_is_checked() -> None:
    two = [Request("a", 64, 0, 2), Request("b", 64, 1, 3)]
    with pytest.raises(ExirError, match="overlapping tensors"):
        planned(two, algorithm=lambda wanted, alignment: [0] * len(wanted))
    with pytest.raises(ExirError, match="wrong number of offsets"):
        planned(two, algorithm=lambda wanted, alignment: [0])
    assert planned(two, algorithm=lambda wanted, alignment: [0, 256]).arena_bytes == 320


def test_largest_first_is_not_always_best() -> None:
    """Orders beyond the first are tried: here an order by time reaches what is alive at once."""
    wanted = [
        Request("a", 48, 0, 1),
        Request("b", 32, 1, 2),
        Request("c", 48, 2, 3),
        Request("d", 32, 3, 4),
        Request("e", 64, 4, 5),
    ]
    offsets = greedy(wanted)
    assert max(o + r.size for o, r in zip(offsets, wanted, strict=True)) <= 96


def test_report_names_everything() -> None:
    text = str(planned([Request("first", 64, -1, 2), Request("second", 32, 3, 3)]))
    assert text.splitlines()[0] == "64 bytes for 96: reuse 1.50"
    assert "first" in text and "second" in text
