"""Which operators go to osprey: one rule for each constraint of the table, of the same name."""

import math
from typing import Any, ClassVar

from torch import fx

from npu_assay.partitioners.exir.nodes import argument, pair, rank, shape
from npu_assay.partitioners.exir.rules import rule
from npu_assay.partitioners.exir.single_op import Cluster, ClusterPartitioner


@rule("rank_at_most_5")
def rank_at_most_5(node: fx.Node, cluster: Cluster | None) -> str | None:
    """rank <= 5"""
    found = rank(node.all_input_nodes[0])
    return f"{found} dimensions" if found > 5 else None


@rule("channels_mod_4_0")
def channels_mod_4(node: fx.Node, cluster: Cluster | None) -> str | None:
    """channels % 4 = 0"""
    sizes = shape(node.args[0])
    return f"{sizes[1]} channels" if len(sizes) > 1 and sizes[1] % 4 else None


@rule("batch_1")
def batch_1(node: fx.Node, cluster: Cluster | None) -> str | None:
    """batch = 1"""
    sizes = shape(node.args[0])
    return f"a batch of {sizes[0]}" if sizes and sizes[0] != 1 else None


@rule("flat_input_size_at_most_32768")
def few_elements(node: fx.Node, cluster: Cluster | None) -> str | None:
    """flat input size <= 32768"""
    found = math.prod(shape(node.args[0]))
    return f"{found} elements" if found > 32768 else None


@rule("unread_rows_of_at_most_2_kib")
def short_rows(node: fx.Node, cluster: Cluster | None) -> str | None:
    """rows of at most 2 KiB"""
    sizes = shape(node.args[0])
    return f"rows of {sizes[-1]} bytes" if sizes and sizes[-1] > 2048 else None


@rule("unread_images_of_even_height_and_width")
def even_images(node: fx.Node, cluster: Cluster | None) -> str | None:
    """images of even height and width"""
    sizes = shape(node.args[0])
    return None if len(sizes) == 4 and not sizes[2] % 2 and not sizes[3] % 2 else f"shape {list(sizes)}"


@rule("no_broadcasting")
def no_broadcasting(node: fx.Node, cluster: Cluster | None) -> str | None:
    """no broadcasting"""
    one, other = shape(node.args[0]), shape(node.args[1])
    return f"{list(one)} and {list(other)}" if one != other else None


@rule("the_second_operand_is_a_constant")
def second_constant(node: fx.Node, cluster: Cluster | None) -> str | None:
    """the second operand is a constant"""
    found: Any = node.args[1]
    while isinstance(found, fx.Node) and found.op == "call_function" and found.args:
        found = found.args[0]  # of a dequantize node what that takes
    constant = isinstance(found, fx.Node) and found.name.startswith(("b_", "c_", "p_"))
    return None if constant else "an operand that is computed"


@rule("along_one_of_the_last_two_axes")
def last_two_axes(node: fx.Node, cluster: Cluster | None) -> str | None:
    """along one of the last two axes"""
    count = rank(node.args[0])
    dim = argument(node, 1, "dim") % max(count, 1)
    return f"dimension {dim} of {count}" if dim < count - 2 else None


@rule("keepdim_true")
def keepdim(node: fx.Node, cluster: Cluster | None) -> str | None:
    """keepdim=True"""
    return None if argument(node, 2, "keepdim", False) else "keepdim is False"


@rule("unread_the_last_axis_stays")
def last_axis_stays(node: fx.Node, cluster: Cluster | None) -> str | None:
    """the last axis stays"""
    dims: Any = node.args[1]
    return None if dims[-1] in (-1, len(dims) - 1) else f"dims {list(dims)}"


@rule("kernel_at_most_6")
def small_kernel(node: fx.Node, cluster: Cluster | None) -> str | None:
    """kernel <= 6"""
    found = pair(node.args[1]) or (0, 0)
    return f"a kernel of {found}" if max(found) > 6 else None


@rule("stride_at_most_3")
def small_stride(node: fx.Node, cluster: Cluster | None) -> str | None:
    """stride <= 3"""
    found = pair(argument(node, 2, "stride", ())) or pair(node.args[1]) or (0, 0)
    return f"a stride of {found}" if max(found) > 3 else None


@rule("weights_of_at_most_8_kib")
def small_weights(node: fx.Node, cluster: Cluster | None) -> str | None:
    """weights of at most 8 KiB"""
    found = math.prod(shape(node.args[1]))
    return f"{found} bytes" if found > 8192 else None


class OspreyPartitioner(ClusterPartitioner):
    """Every row of the table with its rules."""

    backend_id = "OspreyBackend"
    rules: ClassVar = {
        **dict.fromkeys(("aten.abs.default", "aten.neg.default", "aten.sign.default"), (rank_at_most_5,)),
        **dict.fromkeys(("aten.log1p.default", "aten.expm1.default"), (rank_at_most_5,)),
        **dict.fromkeys(("aten.cat.default", "aten.slice_copy.Tensor"), (rank_at_most_5,)),
        "aten.relu.default": (channels_mod_4,),
        **dict.fromkeys(("aten.sigmoid.default", "aten.tanh.default"), (rank_at_most_5, short_rows)),
        **dict.fromkeys(("aten.exp.default", "aten.log.default"), (short_rows,)),
        **dict.fromkeys(("aten.sqrt.default", "aten.rsqrt.default"), (short_rows,)),
        **dict.fromkeys(("aten.sin.default", "aten.cos.default", "aten.erf.default"), (few_elements,)),
        "aten.gelu.default": (few_elements, batch_1),
        **dict.fromkeys(("aten.hardswish.default", "aten.hardsigmoid.default"), (channels_mod_4,)),
        "aten.leaky_relu.default": (channels_mod_4,),
        **dict.fromkeys(("aten.elu.default", "aten.hardtanh.default"), (batch_1,)),
        **dict.fromkeys(("aten.floor.default", "aten.ceil.default"), (even_images,)),
        "aten.reciprocal.default": (rank_at_most_5, batch_1),
        "aten.add.Tensor": (no_broadcasting, few_elements),
        "aten.sub.Tensor": (no_broadcasting,),
        "aten.mul.Tensor": (second_constant,),
        **dict.fromkeys(("aten.maximum.default", "aten.minimum.default"), (no_broadcasting,)),
        **dict.fromkeys(("aten._softmax.default", "aten._log_softmax.default"), (last_two_axes,)),
        **dict.fromkeys(("aten.mean.dim", "aten.amax.default", "aten.amin.default"), (keepdim,)),
        "aten.permute_copy.default": (last_axis_stays,),
        "aten.avg_pool2d.default": (small_kernel, small_stride),
        "aten.max_pool2d_with_indices.default": (small_kernel,),
        "aten.max_pool2d.default": (small_kernel,),
        "aten.mm.default": (small_weights,),
    }
