"""Which operators go to heron, and its limits: one function for each constraint of the table, of the same name."""

from typing import ClassVar

import torch
from torch import fx

from npu_assay.partitioners.exir.nodes import argument, pair, rank, shape
from npu_assay.partitioners.exir.rules import rule
from npu_assay.partitioners.exir.single_op import Cluster, ClusterPartitioner, same_qparams

LANES = 16  # channels that the array works on at once


@rule("alpha")
def alpha(node: fx.Node, cluster: Cluster | None) -> str | None:
    """alpha must be 1"""
    found = argument(node, 2, "alpha", 1)
    return None if found == 1 else f"alpha is {found}"


@rule("rank")
def images(node: fx.Node, cluster: Cluster | None) -> str | None:
    """the input must have rank 4"""
    found = rank(node.args[0])
    return None if found == 4 else f"rank {found}"


@rule("channels_multiple_of")
def channels(node: fx.Node, cluster: Cluster | None) -> str | None:
    """the channel count must be a multiple of 16"""
    sizes = shape(node.args[0])
    return f"{sizes[1]} channels" if len(sizes) == 4 and sizes[1] % LANES else None


@rule("dilation")
def dilation(node: fx.Node, cluster: Cluster | None) -> str | None:
    """dilation must be 1"""
    found = pair(argument(node, 4, "dilation", 1)) or (1, 1)
    return None if found == (1, 1) else f"dilation {found}"


@rule("ceil_mode")
def ceil_mode(node: fx.Node, cluster: Cluster | None) -> str | None:
    """ceil_mode must be False"""
    return "ceil_mode is True" if argument(node, 5, "ceil_mode", False) else None


@rule("eight_bits")
def eight_bits(node: fx.Node, cluster: Cluster | None) -> str | None:
    """only additions and transpositions take codes of 16 bits"""
    found = [] if cluster is None else [cluster.output, *(operand.qparams for operand in cluster.operands)]
    return "codes of 16 bits" if any(q.dtype != torch.int8 for q in found) else None


class HeronPartitioner(ClusterPartitioner):
    """Tags the operators below where they are quantized and their rules hold; `rejections` says why not the others."""

    backend_id = "HeronBackend"
    dtypes = (torch.int8, torch.int16)
    rules: ClassVar = {
        "aten.add.Tensor": (alpha,),
        "aten.max_pool2d_with_indices.default": (images, channels, dilation, ceil_mode, same_qparams, eight_bits),
        "aten.mean.dim": (eight_bits,),
        "aten.mm.default": (eight_bits,),
        "aten.permute_copy.default": (same_qparams,),
        "aten.relu.default": (eight_bits,),
        "aten.sigmoid.default": (eight_bits,),
        "aten.tanh.default": (eight_bits,),
    }
