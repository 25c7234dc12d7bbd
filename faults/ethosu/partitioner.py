"""Ethos-U partitioners that break a rule."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from itertools import count
from types import ModuleType
from typing import Any
from unittest.mock import patch

import torch
from torch import fx

from npu_assay.faults import Found, less, renamed
from npu_assay.partitioners.common.rules import pool_kernel
from npu_assay.partitioners.ethosu import EthosUCompileSpec, EthosUPartitioner, boundary, ethos_u55, ethos_u85
from npu_assay.partitioners.ethosu import partitioner as partitioner_module
from npu_assay.partitioners.ethosu.support import common, layout, linear, pooling, reduction, resize
from npu_assay.partitioners.exir import Backend, PartitionResult
from npu_assay.partitioners.exir.nodes import shape
from npu_assay.partitioners.exir.rules import rejection

TARGETS = {"ethos-u55": "ethos-u55-128", "ethos-u85": "ethos-u85-256"}


def with_partitioner(backend: Backend, change: Callable[[Found], Found], patches: Any = ()) -> Backend:
    """A backend whose partitioner judges nodes under patches, and whose judgment is changed."""

    def of_partition(nodes: Any, graph: fx.Graph) -> Any:
        found = boundary.partition_rejections(nodes, graph)
        changed = {node: change(reasons) for node, reasons in (found or {}).items()}
        return changed if any(changed.values()) else None

    class Judging(EthosUPartitioner):
        def partition(self, exported_program: torch.export.ExportedProgram) -> PartitionResult:
            with ExitStack() as stack:
                for target, name, value in (*patches, (partitioner_module, "partition_rejections", of_partition)):
                    stack.enter_context(patch.object(target, name, value))
                return super().partition(exported_program)

        def _all_rejections(self, node: fx.Node, context: Any, modules: Any) -> Found:
            return change(super()._all_rejections(node, context, modules))

    def partitioner(**options: Any) -> EthosUPartitioner:
        return Judging(EthosUCompileSpec(TARGETS[backend.name]), **options)

    return replace(backend, partitioner=partitioner)


def without(backend: Backend, code: str) -> Backend:
    """A partitioner that lacks the rules of a code."""
    return with_partitioner(backend, less(code))


def misnamed(backend: Backend, code: str) -> Backend:
    """A partitioner that gives another reason."""
    return with_partitioner(backend, renamed(code))


def limited(backend: Backend, module: ModuleType, name: str, value: object) -> Backend:
    """A partitioner with another number for a limit."""
    return with_partitioner(backend, lambda found: found, ((module, name, value),))


def off_by(backend: Backend, module: ModuleType, name: str) -> tuple[Backend, Backend]:
    """Limits one too large and one too small."""
    right = getattr(module, name)
    return limited(backend, module, name, right + 1), limited(backend, module, name, right - 1)


rank_loosened, rank_tightened = off_by(ethos_u55, common, "MAX_RANK")
conv_height_loosened, conv_height_tightened = off_by(ethos_u55, linear, "MAX_KERNEL_HEIGHT")
conv_area_loosened, conv_area_tightened = off_by(ethos_u55, linear, "MAX_KERNEL_AREA")
weight_sum_loosened, weight_sum_tightened = off_by(ethos_u55, linear, "MAX_WEIGHT_SUM")
matrix_size_loosened, matrix_size_tightened = off_by(ethos_u55, linear, "MAX_SIZE")
pool_height_loosened, pool_height_tightened = off_by(ethos_u55, pooling, "MAX_KERNEL_HEIGHT")
padded_pool_loosened, padded_pool_tightened = off_by(ethos_u55, pooling, "MAX_PADDED_KERNEL")
pool_stride_loosened, pool_stride_tightened = off_by(ethos_u55, pooling, "MAX_STRIDE")
windows_loosened, windows_tightened = off_by(ethos_u55, layout, "MAX_WINDOWS")
argmax_loosened, argmax_tightened = off_by(ethos_u55, reduction, "MAX_ARGMAX_CHANNELS")
reduced_loosened, reduced_tightened = off_by(ethos_u55, reduction, "MAX_SIZE")
summed_loosened, summed_tightened = off_by(ethos_u55, reduction, "MAX_KERNEL_HEIGHT")
pool_side_loosened, pool_side_tightened = off_by(ethos_u85, pooling, "MAX_SIDE")
resize_loosened, resize_tightened = off_by(ethos_u85, resize, "MAX_SCALE")


def _width_first(right: Callable[[fx.Node], tuple[int, int]]) -> Callable[[fx.Node], tuple[int, int]]:
    def exchanged(node: fx.Node) -> tuple[int, int]:
        height, width = right(node)
        return width, height

    return exchanged


conv_wrong_axis = limited(ethos_u55, linear, "plane", _width_first(linear.plane))
pool_wrong_axis = limited(ethos_u55, pooling, "pool_kernel", _width_first(pool_kernel))
stride_of_one_axis = limited(ethos_u55, pooling, "pool_stride", lambda node: (pool_kernel(node)[0],) * 2)
depth_of_last_axis = limited(ethos_u55, linear, "shape", lambda node: _deep_last(shape(node)))
marks_ignored = limited(ethos_u55, common, "MARK", "_another_mark")
u55_as_u85 = replace(ethos_u55, partitioner=lambda **options: EthosUPartitioner(EthosUCompileSpec("ethos-u85-256")))


def _deep_last(sizes: tuple[int, ...]) -> tuple[int, ...]:
    """Sizes whose depth, of three-dimensional convolutions, stands after height and width."""
    return (*sizes[:2], *sizes[3:], sizes[2]) if len(sizes) == 5 else sizes


class _Nondeterministic(EthosUPartitioner):
    """Refuses all every other time it is asked."""

    turns = count()

    def partition(self, exported_program: torch.export.ExportedProgram) -> PartitionResult:
        self.refusing = next(self.turns) % 2 == 1
        return super().partition(exported_program)

    def _all_rejections(self, node: fx.Node, context: Any, modules: Any) -> Found:
        mood = rejection(node, "mood", "none", "the mood must be good")
        return (mood,) if self.refusing else super()._all_rejections(node, context, modules)


moody = replace(
    ethos_u55, partitioner=lambda **options: _Nondeterministic(EthosUCompileSpec(TARGETS["ethos-u55"]), **options)
)
