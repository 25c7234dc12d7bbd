"""Catalogues of derived faults: what must notice each kind, which rows show an operator, and what is left out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any, TypeAlias

from npu_assay.faults import Fault
from npu_assay.partitioners.exir.backend import Backend

Made: TypeAlias = tuple[str, str, tuple[str, ...], Callable[[Backend], Backend]]
"""A derived fault: its kind, its name, the cases that show it, and what makes the broken backend of the right one."""
Names: TypeAlias = Mapping[str, str]
"""By kind or reason the faults that have it, as patterns of name or stage/name."""
USUAL = {"partitioner": "tag", "compiler": "gate1 gate3", "device": "gate1 gate3"}
"""By stage, the checks that must notice a fault."""
CHECKS = {
    "constant": "not_constant",
    "delegation": "delegates",
    "grouping": "crash",
    "implied": "reason",
    "layout": "gate1 gate3 gate4",
    "memory": "mutation",
    "misnamed": "reason",
    "overflow": "finite",
    "precision": "gate3",
    "refused": "crash",
    "rounding": "gate1 gate2",
    "shape": "shape",
    "sizes": "crash",
    "ties": "gate1",
    "unstable": "determinism",
}
"""By kind, the checks that must notice it instead."""


class Listing:
    """The catalogue of a backend's derived faults.

    stages: by stage what derives its faults. kinds: by kind those of them that are of it, whatever they are made as.
    left_out: by reason those that are in no catalogue.
    """

    def __init__(self, right: Backend, kinds: Names, left_out: Names, **stages: Callable[[], Iterable[Made]]) -> None:
        self.right, self.kinds, self.left_out, self.stages = right, kinds, left_out, stages

    @cached_property
    def derived(self) -> tuple[Fault, ...]:
        """All faults, also those that are left out."""
        return tuple(self._fault(stage, *one) for stage, made in self.stages.items() for one in made())

    def _fault(self, stage: str, usual: str, name: str, cases: tuple[str, ...], how: Any) -> Fault:
        kind = next(_having(self.kinds, stage, name), usual)
        checks = frozenset(CHECKS.get(kind, USUAL[stage]).split())
        return Fault(name, stage, kind, how(self.right), cases, checks)

    def reasons(self, fault: Fault) -> list[str]:
        """The reasons for which a fault is left out."""
        return list(_having(self.left_out, fault.stage, fault.name))

    @cached_property
    def faults(self) -> tuple[Fault, ...]:
        """The faults that no reason leaves out."""
        return tuple(fault for fault in self.derived if not self.reasons(fault))


def named(name: str, *listings: Listing) -> Backend:
    """The broken backend of the first fault of that name, for a module's `__getattr__`. Raises AttributeError."""
    for fault in (fault for each in listings for fault in each.faults):
        if fault.name == name:
            return fault.backend
    raise AttributeError(f"no fault is named {name!r}")


def _having(names: Names, stage: str, name: str) -> Iterator[str]:
    for key, patterns in names.items():
        if any(fnmatchcase(f"/{stage}/{name}", f"*/{pattern}") for pattern in patterns.split()):
            yield key


ROWS = {
    "_softmax": "softmax",
    "add.": "rescale",
    "addmm linear": "fullyconnected",
    "amax": "reducemax",
    "amin": "reducemin",
    "any": "reduceany",
    "avg_pool2d": "averagepool2d avgpool2d avgpooling2d",
    "bitwise_left_shift": "logicalleftshift",
    "bitwise_right_shift": "arithmeticrightshift",
    "bmm": "batchmatmul batchmatrixmultiply matmul",
    "cat": "concat concatenate2 concatenate3 concatenation",
    "ceil": "ceiling",
    "constant_pad": "pad padv2 staticconstantpad",
    "convolution conv2d": "conv2d depthwiseconv2d transposeconv transposeconv2d",
    "flip": "reverse",
    "ge.": "greaterequal",
    "gt.": "greater",
    "eq.": "equal",
    "hardtanh": "clamp relu6 relu0to1 relun1to1",
    "index_put": "scatter",
    "index_select": "gather",
    "leaky_relu": "leakyrelu",
    "max_pool2d": "maxpool2d maxpooling2d",
    "mean": "globalavgpooling2d",
    "mul": "multiply",
    "neg": "negate",
    "permute": "statictranspose transpose",
    "pow": "square",
    "repeat": "tile",
    "rsqrt": "reciprocalsquareroot",
    "sigmoid": "logistic",
    "sin.": "table",
    "slice": "staticslice",
    "sqrt": "squareroot",
    "sub": "subtract",
    "sum": "reducesum",
    "upsample": "resize staticresizebilinear2d",
    "upsample_bilinear": "resizebilinear",
    "upsample_nearest": "resizenearestneighbor",
    "view": "reshape",
    "where": "select",
}
"""How the names of rows begin that become operators of a blob; those operators without "_"."""


def rows(codes: Iterable[str], targets: Iterable[str]) -> dict[str, str]:
    """By operator of a blob, how the names of the rows among `targets` begin that become it."""
    begun = {code: row for row, found in ROWS.items() for code in found.split()}
    known = [target.removeprefix("aten.") for target in targets]
    found = dict[str, str]()
    for code in codes:
        asked = begun.get(code.lower().replace("_", ""), code.lower()).split()
        found.update((code, row) for row in asked if any(each.startswith(row) for each in known))
    return found
