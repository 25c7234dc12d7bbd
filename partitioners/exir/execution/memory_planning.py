"""Where tensors live: offsets into one arena, so that no two tensors that are alive together overlap."""

from __future__ import annotations

import heapq
from bisect import insort
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from npu_assay.partitioners.exir.errors import ExirError

ALIGNMENT = 16


@dataclass(frozen=True, slots=True)
class Request:
    """Memory of a tensor: `size` bytes while instructions `first` to `last`, both included, run."""

    name: str
    size: int
    first: int
    last: int


Placement = Callable[[Sequence[Request], int], Sequence[int]]
"""Requests and alignment to the offset of each."""


@dataclass(frozen=True, slots=True)
class Planned:
    """A request and the offset it got, in bytes."""

    request: Request
    offset: int

    @property
    def end(self) -> int:
        """The first byte after it."""
        return self.offset + self.request.size


@dataclass(frozen=True)
class MemoryPlan:
    """The arena of a method: its size and who is where. `padding` bytes at its end belong to no tensor."""

    tensors: tuple[Planned, ...]
    arena_bytes: int
    padding: int = 0

    @property
    def unshared_bytes(self) -> int:
        """What the arena would be if every tensor had memory of its own."""
        return sum(p.request.size for p in self.tensors) + self.padding

    @property
    def peak_bytes(self) -> int:
        """What is alive at once, at most: no plan can be smaller."""
        return peak([p.request for p in self.tensors]) + self.padding

    @property
    def reuse(self) -> float:
        """How many times over the arena is used; 1 for an empty one."""
        return self.unshared_bytes / self.arena_bytes if self.arena_bytes else 1.0

    def __str__(self) -> str:
        rows = [f"{self.arena_bytes} bytes for {self.unshared_bytes}: reuse {self.reuse:.2f}"]
        for planned in self.tensors:
            r = planned.request
            rows.append(f"{planned.offset:>10} +{r.size:<10} {r.first:>5}..{r.last:<5} {r.name}")
        return "\n".join(rows)


def planned(
    requests: Iterable[Request], alignment: int = ALIGNMENT, algorithm: Placement | None = None, padding: int = 0
) -> MemoryPlan:
    """Place all requests. Raises ExirError when the algorithm lets two that are alive together overlap."""
    wanted = [Request(r.name, aligned(r.size, alignment), r.first, r.last) for r in requests]
    offsets = (algorithm or greedy)(wanted, alignment)
    if not isinstance(offsets, Sequence) or not all(isinstance(offset, int) for offset in offsets):
        raise ExirError("plan of the wrong type", repr(offsets), "a list of offsets", "memory planning")
    if len(offsets) != len(wanted):
        raise ExirError("plan with the wrong number of offsets", str(len(offsets)), str(len(wanted)), "memory planning")
    tensors = tuple(Planned(r, o) for r, o in zip(wanted, offsets, strict=True))
    check_overlaps(tensors, alignment)
    size = max((t.end for t in tensors), default=0)
    padding = padding if size else 0
    return MemoryPlan(tensors, size + padding, padding)


def aligned(size: int, alignment: int) -> int:
    """The next multiple of `alignment`."""
    return -(-size // alignment) * alignment


def greedy(requests: Sequence[Request], alignment: int = ALIGNMENT) -> list[int]:
    """Place one request after the other into the tightest gap between those placed; sizes are aligned already.

    Several orders are tried, largest first before all others, and the smallest arena is kept. The search ends
    at once when an arena is as small as what is alive at once.
    """
    floor = peak(requests)
    best: list[int] = []
    smallest = -1
    for key in ORDERS:
        order = sorted(range(len(requests)), key=lambda i: key(requests[i]))
        offsets = _placed(requests, order)
        size = max((o + r.size for o, r in zip(offsets, requests, strict=True)), default=0)
        if smallest < 0 or size < smallest:
            best, smallest = offsets, size
        if smallest == floor:
            break
    return best


ORDERS: tuple[Callable[[Request], tuple[int, ...]], ...] = (
    lambda r: (-r.size, r.first - r.last, r.first),
    lambda r: (-r.size * (r.last - r.first + 1), r.first),
    lambda r: (r.first, -r.size),
    lambda r: (-r.last, -r.size),
    lambda r: (r.first - r.last, -r.size),
)


def _placed(requests: Sequence[Request], order: Iterable[int]) -> list[int]:
    """Offsets, given out in `order`: each the start of the smallest gap that fits, the lowest among equals."""
    offsets = [0] * len(requests)
    taken: list[tuple[int, int, int, int]] = []  # sorted: offset, end, first, last
    for index in order:
        request = requests[index]
        offset = _best_gap(request, taken)
        offsets[index] = offset
        if request.size:
            insort(taken, (offset, offset + request.size, request.first, request.last))
    return offsets


def _best_gap(request: Request, taken: Sequence[tuple[int, int, int, int]]) -> int:
    best, room, top = -1, 0, 0
    for offset, end, first, last in taken:
        if first > request.last or last < request.first:
            continue
        gap = offset - top
        if gap >= request.size and (best < 0 or gap < room):
            best, room = top, gap
        top = max(top, end)
    return top if best < 0 else best


def peak(requests: Iterable[Request]) -> int:
    """The most bytes that are alive at one instruction."""
    changes: dict[int, int] = {}
    for r in requests:
        changes[r.first] = changes.get(r.first, 0) + r.size
        changes[r.last + 1] = changes.get(r.last + 1, 0) - r.size
    highest = alive = 0
    for moment in sorted(changes):
        alive += changes[moment]
        highest = max(highest, alive)
    return highest


def check_overlaps(tensors: Sequence[Planned], alignment: int = ALIGNMENT) -> None:
    """Raise ExirError for an offset that is not aligned and for two tensors alive together that share a byte."""
    for planned_ in tensors:
        if planned_.offset < 0 or planned_.offset % alignment:
            raise ExirError(
                "misaligned tensor", f"offset {planned_.offset}", f"a multiple of {alignment}", planned_.request.name
            )
    for one, other in _together(tensors):
        if one.offset < other.end and other.offset < one.end:
            raise ExirError(
                "overlapping tensors",
                f"bytes {one.offset}..{one.end} and {other.offset}..{other.end}",
                "no common byte while both are alive",
                f"{one.request.name}, {other.request.name}",
            )


def _together(tensors: Sequence[Planned]) -> Iterator[tuple[Planned, Planned]]:
    """All pairs that are alive together; empty tensors are left out."""
    alive: list[tuple[int, int, Planned]] = []  # a heap by last instruction
    for number, tensor in enumerate(sorted((t for t in tensors if t.request.size), key=lambda t: t.request.first)):
        while alive and alive[0][0] < tensor.request.first:
            heapq.heappop(alive)
        for _, _, other in alive:
            yield other, tensor
        heapq.heappush(alive, (tensor.request.last, number, tensor))
