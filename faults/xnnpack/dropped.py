"""XNNPACK partitioners that lack one rule of one operator, or give another reason for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from unittest.mock import patch

import torch
from torch import fx

from npu_assay.faults import Fault, Found, less, renamed
from npu_assay.faults.xnnpack.partitioner import of_class
from npu_assay.partitioners.exir import Backend, PartitionResult
from npu_assay.partitioners.xnnpack import XnnpackPartitioner
from npu_assay.partitioners.xnnpack import partitioner as module
from npu_assay.partitioners.xnnpack.config import PartitionerConfig
from npu_assay.partitioners.xnnpack.configs import ALL_CONFIGS


def judging(change: Callable[[Found], Found]) -> Backend:
    """A backend whose partitioner changes what its rules say."""

    def private(site: Any, reasons: Any) -> Found:
        return change(right(site, reasons))

    right = module.private_rejections

    class Judging(XnnpackPartitioner):
        def partition(self, exported_program: torch.export.ExportedProgram) -> PartitionResult:
            with patch.object(module, "private_rejections", private):
                return super().partition(exported_program)

        def _own_rejections(self, node: fx.Node, sites: Any) -> Found:
            return change(super()._own_rejections(node, sites))

    return of_class(Judging)


CONVOLUTION = "aten.convolution.default"
# Of the rules of every operator, those whose limits no other rule sees as well.
COMMON = ("dtype", "nonempty", "max_rank")
# What is delegated beyond the support table, which promises nothing of it.
BEYOND = frozenset(
    {
        "aten._native_batch_norm_legit_no_training.default",
        "aten.addmm.default",
        "aten.clone.default",
        "aten.cos.default",
        "aten.max.dim",
        "aten.mm.default",
        "aten.prelu.default",
        "aten.sin.default",
        "aten.unsqueeze_copy.default",
        "aten.view_copy.default",
        "dim_order_ops._clone_dim_order.default",
    }
)
# Rules against programs that no quantizer and no export of a documented operator makes.
INTERNAL = frozenset(
    {
        "accumulators",
        "beta",
        "bias_shape",
        "float32_number",
        "first_result",
        "group_codes",
        "memory_format",
        "output_padding",
        "run_time_qparams",
        "tensor_operands",
        "weight_dtype",
        "weight_scales",
    }
)
# Pairs of a code and an operator that another rule of the operator implies.
IMPLIED = frozenset(
    {
        ("max_rank", "aten.avg_pool2d.default"),
        ("max_rank", "aten.bmm.default"),
        ("max_rank", "aten.convolution.default"),
        ("max_rank", "aten.max_pool2d.default"),
        ("max_rank", "aten.mean.dim"),
        ("max_rank", "aten.upsample_bilinear2d.vec"),
        ("rank", "aten.convolution.default"),
        ("rank", "aten.linear.default"),
    }
)


def codes_of(config: type[PartitionerConfig]) -> list[str]:
    """The codes of an operator's own rules, and of those of every operator that it has."""
    common = [rule.code for rule in config.common if rule.code in COMMON]
    found = dict.fromkeys((*common, *(rule.code for rule in config.rules)))
    return [code for code in found if code not in INTERNAL and (code, config.target) not in IMPLIED]


def documented() -> Iterator[type[PartitionerConfig]]:
    """The configs of the operators in the support table."""
    return (config for config in ALL_CONFIGS if config.target not in BEYOND)


def dropped() -> Iterator[Fault]:
    """One fault for every rule of every operator."""
    for config in documented():
        target = config.target
        for code in codes_of(config):
            cases = (f"{'aten.conv' if target == CONVOLUTION else target}*/{code}/",)
            yield Fault(f"{code}_of_{target}", "partitioner", "dropped", judging(less(code, target)), cases)


def misnamed() -> Iterator[Fault]:
    """One fault for every code."""
    for code in dict.fromkeys(code for config in documented() for code in codes_of(config)):
        cases = (f"*/{code}/",)
        yield Fault(f"{code}_misnamed", "partitioner", "misnamed", judging(renamed(code)), cases, frozenset({"reason"}))
