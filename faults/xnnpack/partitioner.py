"""XNNPACK partitioners that break a rule."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import count
from typing import Any

from torch import fx

from npu_assay.partitioners.exir import Backend
from npu_assay.partitioners.exir.reachability import union
from npu_assay.partitioners.exir.rules import Rule as AnyRule
from npu_assay.partitioners.exir.rules import rejection
from npu_assay.partitioners.xnnpack import XnnpackPartitioner, backend
from npu_assay.partitioners.xnnpack.config import PartitionerConfig
from npu_assay.partitioners.xnnpack.options import ConfigPrecisionType
from npu_assay.partitioners.xnnpack.site import Rule
from npu_assay.partitioners.xnnpack.site import Site as Subject


def with_config(target: str, **changes: Any) -> Backend:
    """A backend whose config of one operator has other rules or precisions."""

    def partitioner(**options: Any) -> XnnpackPartitioner:
        made = backend.partitioner(**options)
        assert isinstance(made, XnnpackPartitioner)
        if target in made.configs:
            made.configs[target] = _changed(made.configs[target], changes)
        return made

    return replace(backend, partitioner=partitioner)


def _changed(config: PartitionerConfig, changes: Mapping[str, Any]) -> PartitionerConfig:
    """The config with other class attributes; a function makes a new one of the old one."""
    attributes = {name: new(getattr(config, name)) if callable(new) else new for name, new in changes.items()}
    made = type(type(config).__name__, (type(config),), attributes)()
    assert isinstance(made, PartitionerConfig)
    return made


def without(code: str) -> Callable[[tuple[Rule, ...]], tuple[Rule, ...]]:
    """Rules less the one of a code."""
    return lambda rules: tuple(rule for rule in rules if rule.code != code)


def instead(code: str, check: Callable[[fx.Node, Subject], str | None]) -> Callable[[tuple[Rule, ...]], Any]:
    """Rules with another function for the one of a code."""
    return lambda rules: tuple(AnyRule(r.code, r.sentence, check) if r.code == code else r for r in rules)


def named(code: str, other: str) -> Callable[[tuple[Rule, ...]], Any]:
    """Rules of which one gives another reason."""
    return lambda rules: tuple(replace(rule, code=other) if rule.code == code else rule for rule in rules)


def ignoring(option: str) -> Backend:
    """A backend whose partitioner ignores an option."""

    def partitioner(**options: Any) -> XnnpackPartitioner:
        made = backend.partitioner(**{name: value for name, value in options.items() if name != option})
        assert isinstance(made, XnnpackPartitioner)
        return made

    return replace(backend, partitioner=partitioner)


def _rank_up_to_7(node: fx.Node, site: Subject) -> str | None:
    ranks = [source.meta["val"].dim() for source in (*node.all_input_nodes, node)]
    return f"rank {max(ranks)}" if max(ranks) > 7 else None


def _stride_below_kernel(node: fx.Node, site: Subject) -> str | None:
    kernel: Any = node.args[1]
    stride: Any = node.args[2] if len(node.args) > 2 and node.args[2] else kernel
    return f"stride {stride}" if any(s >= k for s, k in zip(stride, kernel, strict=True)) else None


def _absolute_alpha(node: fx.Node, site: Subject) -> str | None:
    alpha: Any = node.kwargs.get("alpha", 1)
    return None if abs(alpha) == 1 else f"alpha = {alpha}"


FLOAT_ONLY = (ConfigPrecisionType.FP32,)

alpha_taken = with_config("aten.add.Tensor", rules=without("alpha"))
minus_taken = with_config("aten.sub.Tensor", rules=instead("alpha", _absolute_alpha))
rank_off_by_one = with_config("aten.abs.default", common=instead("max_rank", _rank_up_to_7))
stride_off_by_one = with_config("aten.max_pool2d.default", rules=instead("stride_within_kernel", _stride_below_kernel))
zero_points_taken = with_config("aten.linear.default", rules=without("weight_zero_point"))
scales_mixed = with_config("aten.cat.default", rules=without("same_qparams"))
layers_in_parts_taken = with_config("aten.addmm.default", rules=without("quantized"))
scale_unlimited = with_config("aten.linear.default", rules=without("requant_scale"))
doubles_taken = with_config("aten.exp.default", common=without("dtype"))
another_reason = with_config("aten._softmax.default", rules=named("last_dim", "dims"))
never_on_codes = with_config("aten.mul.Tensor", precisions=FLOAT_ONLY)
precision_ignored = ignoring("config_precisions")
per_op_mode_ignored = ignoring("per_op_mode")
configs_ignored = ignoring("configs")


class _Nondeterministic(XnnpackPartitioner):
    """Refuses every other time it is asked."""

    turns = count()

    def _own_rejections(self, node: fx.Node, sites: Any) -> Any:
        found = super()._own_rejections(node, sites)
        return found if next(self.turns) % 2 else (rejection(node, "mood", "none", "the mood must be good"),)


class _Greedy(XnnpackPartitioner):
    """Puts everything into one delegate, even what waits for operators outside."""

    def _partitions(self, reach: Any, accepted: Any) -> Any:
        partitions, refused = super()._partitions(reach, accepted)
        return ({0: union(partitions.values())} if partitions else {}), refused


def of_class(kind: type[XnnpackPartitioner]) -> Backend:
    """A backend with another partitioner, which takes the same options."""

    def partitioner(**options: Any) -> XnnpackPartitioner:
        made = kind()
        vars(made).update(vars(backend.partitioner(**options)))
        return made

    return replace(backend, partitioner=partitioner)


moody = of_class(_Nondeterministic)
cycles_closed = of_class(_Greedy)
