"""What a config is: one operator's precisions, rules, and the nodes that go where it goes."""

from __future__ import annotations

from typing import Any, ClassVar

from torch import fx

from npu_assay.partitioners.exir.backend import Rejection
from npu_assay.partitioners.exir.rules import rejection, rejections
from npu_assay.partitioners.xnnpack.linear import Places
from npu_assay.partitioners.xnnpack.lowering.elementwise import Lower
from npu_assay.partitioners.xnnpack.options import ConfigPrecisionType
from npu_assay.partitioners.xnnpack.site import Program, Rule, Site
from npu_assay.partitioners.xnnpack.support.common import REAL

FP32 = ConfigPrecisionType.FP32
STATIC = ConfigPrecisionType.STATIC_QUANT
DYNAMIC = ConfigPrecisionType.DYNAMIC_QUANT
CONFIGS = "npu_assay.partitioners.xnnpack.configs"
PRECISION = "config_precisions must name a precision that the operator's config supports"


class PartitionerConfig:
    """One operator that can be delegated. Subclasses say which, and under which conditions.

    target: the operator's name. precisions: what it can be computed in. rules: its own limits.
    fused: activations that are fused with it when it is computed on codes. on_codes: False for an operator that is
    computed on real numbers in quantized programs, too. places: where a product's operands stand.
    is_preserved: whether the operator is not decomposed on the way to the edge dialect.
    lower: what the compiler writes for it; None for conversions, which belong to other operators. moves: whether it
    only moves elements, so that codes keep their scale. is_clamped: whether XNNPACK limits its result, so that a relu
    or hardtanh after it costs nothing.
    """

    target: ClassVar[str]
    precisions: ClassVar[tuple[ConfigPrecisionType, ...]] = (FP32,)
    common: ClassVar[tuple[Rule, ...]] = REAL
    rules: ClassVar[tuple[Rule, ...]] = ()
    fused: ClassVar[frozenset[str]] = frozenset()
    on_codes: ClassVar[bool] = True
    places: ClassVar[Places | None] = None
    is_preserved: ClassVar[bool] = False
    lower: ClassVar[Lower | None] = None
    moves: ClassVar[bool] = False
    is_clamped: ClassVar[bool] = False

    @classmethod
    def has_codes(cls) -> bool:
        """Whether the compiler computes it on int8 codes where it stands between these; products say so themselves."""
        return cls.moves or (STATIC in cls.precisions and cls.on_codes and cls.places is None)

    def site(self, node: fx.Node, program: Program) -> Site:
        """The operator as its rules see it."""
        return Site(node, program, program.options.enabled(self.precisions), self.fused, self.on_codes, self.places)

    def rejections(self, site: Site) -> tuple[Rejection, ...]:
        """Every reason why the operator cannot be delegated; empty when it can."""
        found = rejections((*self.common, *self.rules), site.node, site)
        if site.precisions:
            return found
        names = ", ".join(precision.name for precision in self.precisions)
        return (rejection(site.node, "precision", f"{type(self).__name__} supports {names}", PRECISION), *found)

    def members(self, site: Site) -> tuple[fx.Node, ...]:
        """The operator, and the nodes that must be in the same delegate."""
        return (site.node, *(() if site.static is None else site.static.members))


def config(name: str, target: str, lower: Lower, **fields: Any) -> type[PartitionerConfig]:
    """The config of an operator that needs nothing but data; `fields` are the class's, see there."""
    about = {"__doc__": target, "__module__": CONFIGS, "target": target, "lower": lower}
    return type(name, (PartitionerConfig,), about | fields)
