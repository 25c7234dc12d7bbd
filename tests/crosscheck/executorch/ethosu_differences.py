"""Where our EthosUPartitioner's tags are not those of ExecuTorch 1.5.1; docs/decisions.md says the same.

`example` names a program of `ethosu_examples` that shows the difference. What 1.5.1 refuses and we accept begins with
"accepts", what its partitioner ends with an error at begins with "fails"; the other names are the codes of our
rejections.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch import fx

from npu_assay.partitioners.ethosu.support.common import (
    CONVERT,
    along_dims,
    dtype_of,
    is_integer,
    matrix_of_weights,
    no_truths,
)
from npu_assay.partitioners.ethosu.support.elementwise import signed_operands
from npu_assay.partitioners.ethosu.support.rule import Rule
from npu_assay.partitioners.ethosu.support.rules import RULES
from npu_assay.partitioners.ethosu.support.slopes import table_slope
from npu_assay.partitioners.exir.nodes import argument, operand, shape
from npu_assay.partitioners.exir.ops import GETITEM
from tests.crosscheck.executorch.agreement import Difference, all_of, named

CONVOLUTION = "aten.convolution.default"
ADD = "aten.add.Tensor"
TWO = ("aten.div.Tensor_mode", "aten.pow.Tensor_Tensor", "aten.remainder.Tensor")
POOLS = ("aten.max_pool2d.default", "aten.max_pool2d_with_indices.default", "aten.avg_pool2d.default")


def having(rule: Rule) -> Callable[[fx.Node], bool]:
    """Nodes of the operators that have a rule."""
    return named(*(name for name, rules in RULES.items() if rule in rules))


def window(node: fx.Node) -> Sequence[int]:
    """The sizes of a pool's window, as the program states them."""
    found: Sequence[int] = argument(node, 1, "kernel_size")
    return found


def of_one_number(node: fx.Node) -> bool:
    listed = [each for each in (*node.args[2:], *node.kwargs.values()) if isinstance(each, list | tuple)]
    return len(window(node)) == 1 or any(len(each) == 1 for each in listed)


def of_a_scalar(node: fx.Node) -> bool:
    """Whether the first operand has no dimensions."""
    return shape(operand(node)) == ()


def wide(found: Sequence[int], most: int) -> bool:
    """Whether the width, where there is one, is larger than that."""
    return any(size > most for size in found[:1])


def flat(node: fx.Node) -> bool:
    """A 3-D convolution that is wider than one column, or that leaves columns out."""
    strides: Sequence[int] = argument(node, 3, "stride")
    return wide(shape(operand(node, 1))[4:], 1) or wide(strides[2:], 1)


def on_integers(node: fx.Node) -> bool:
    """The first operand holds no real numbers."""
    first = operand(node)
    return first is not None and is_integer(dtype_of(first))


LISTED: tuple[Difference, ...] = (
    # ------------------------------------------------------------ refused: does not compile, or means something else
    Difference(
        "io_dtype",
        "Delegates take and give int8 and int16; 1.5.1 also takes uint8 and int32 codes at the border.",
        "uint8 at the input",
    ),
    Difference(
        "scalar_qparams",
        "RESCALE needs positive scales, and no operator on int16 has a zero point.",
        "int16 with a zero point",
    ),
    Difference(
        "not_empty",
        "TOSA has no tensors without elements; 1.5.1 also tags what takes or gives them.",
        "a slice of nothing",
    ),
    Difference(
        "min_rank",
        "TOSA goes along an axis; where torch takes a scalar for a list of one, 1.5.1 does, too.",
        "a scalar turned around",
        all_of(having(along_dims), of_a_scalar),
    ),
    Difference("no_bool", "REDUCE_MAX and REDUCE_MIN take no booleans.", "the largest truth", having(no_truths)),
    Difference("spatial_rank", "A list of weights is no matrix.", "a list of weights", having(matrix_of_weights)),
    Difference(
        "quantized_inputs",
        "Products and average pools of integers without a scale: 1.5.1 takes them, and the kernels need one.",
        "a product of integers",
        on_integers,
    ),
    Difference("mixed_dtype", "An operator computes on int8 or on int16, and gives the same.", "int8 added to int16"),
    Difference(
        "quantized_outputs",
        "Also asked of operators that 1.5.1 takes without: real numbers between two operators have no codes.",
        "a real number into abs",
    ),
    Difference(
        "rescale",
        "Multiplier, shift and operand of every RESCALE must be in range; 1.5.1 ends its lowering with an error.",
        "a tiny scale of the result",
    ),
    Difference(
        "code_dtype",
        "Vela ends with an error for argmax of int16 on Ethos-U55.",
        "int16 choices",
        named("aten.argmax.default"),
    ),
    Difference(
        "code_dtype",
        "MAX_POOL2D takes int8 and int16; 1.5.1 also gives it int32.",
        "the largest of int32",
        named(*POOLS[:2], GETITEM),
    ),
    Difference(
        "code_dtype",
        "A truth does not show that it was made of uint8, which a delegate does not take.",
        "uint8 compared",
        having(signed_operands),
    ),
    Difference(
        "table_slope",
        "A 16-bit TABLE cannot jump by more than 32767 from one entry to the next; 1.5.1 leaves that undefined.",
        "int16 reciprocal",
        having(table_slope),
    ),
    Difference(
        "no_wide_transposed",
        "Vela ends with an error for transposed convolutions of int16 on Ethos-U55.",
        "int16 transposed",
        named(CONVOLUTION),
    ),
    Difference(
        "transposed_size",
        "Vela ends with an error where padding leaves less of a transposed convolution than its stride.",
        "a transposed row",
        named(CONVOLUTION),
    ),
    Difference(
        "divided_window",
        "A pool with a divisor of its own is a convolution, whose kernels are smaller on Ethos-U55.",
        "a tall pool with a divisor",
        named("aten.avg_pool2d.default"),
    ),
    Difference(
        "number_operand",
        "A function of two tensors has no operator; of one tensor and a number it is looked up.",
        "remainder of tensors",
        named(*TWO),
    ),
    Difference(
        "alpha",
        "Its quantizer makes a product of alpha; after it, 1.5.1 leaves alpha out without a word.",
        "alpha 2",
        named(ADD, "aten.sub.Tensor"),
    ),
    Difference(
        "unsupported",
        "Ethos-U55 has no GATHER; 1.5.1 forgets that of embedding.",
        "embedding",
        named("aten.embedding.default"),
    ),
    Difference(
        "max_channels",
        "Vela ends with an error for argmax of more than 127 on Ethos-U55.",
        "128 choices",
        named("aten.argmax.default"),
    ),
    Difference(
        "batch",
        "Vela ends with an error for argmax of several images on Ethos-U55; an average pool takes one.",
        "two images",
        named("aten.argmax.default", "aten._adaptive_avg_pool2d.default"),
    ),
    Difference("max_input_rank", "ARGMAX has up to 4 dimensions on Ethos-U55.", "rank 5", named("aten.argmax.default")),
    Difference(
        "kernel_height",
        "Vela's document limits the height (5.1.0 compiles more); 1.5.1 looks at the width.",
        "a tall kernel",
    ),
    Difference(
        "range_arguments",
        "A slice says where it starts; 1.5.1 takes none for the front.",
        "a slice without a start",
        named("aten.slice_copy.Tensor"),
    ),
    Difference(
        "level_side",
        "TOSA's level 8K, in which the devices declare to be; 1.5.1 looks at neither, nor does Vela.",
        "a far stride",
        named(CONVOLUTION),
    ),
    Difference("window_side", "Vela documents TOSA's level 8K, which 1.5.1 does not look at.", "a long window"),
    Difference(
        "cropped", "A window that only reads padding leaves an image of no rows.", "padding alone", named(CONVOLUTION)
    ),
    Difference(
        "static_weights",
        "Ethos-U55 needs encoded weights, Ethos-U85 those of groups, of 3-D and of transposed convolutions.",
        "computed weights",
    ),
    Difference(
        "kernel_depth",
        "Vela's kernels have one slice; 1.5.1 looks at their width.",
        "a deep kernel",
        all_of(named(CONVOLUTION), lambda node: shape(operand(node, 1))[4:] == (1,)),
    ),
    Difference("weight_zero_point", "TOSA has one zero point for all weights.", "zero points per channel"),
    Difference("weight_axis", "RESCALE multiplies along the outputs.", "scales along the inputs"),
    Difference("accumulate", "SCATTER writes each place once.", "accumulated"),
    Difference(
        "summed_size",
        "A running sum is a convolution with a kernel as long, for which kernel_height holds.",
        "a long running sum",
    ),
    Difference(
        "whole_number", "No integer equals a fraction, and there is no operator that says so.", "1.5 in integers"
    ),
    Difference(
        "integer_operands",
        "Logical operators take booleans; 1.5.1 converts codes, whose zero is not 0.",
        "logic of real numbers",
    ),
    Difference(
        "transposition",
        "1.5.1 splits long transpositions by asking Vela; here they are refused.",
        "a long transposition",
    ),
    Difference(
        "stride_or_whole",
        "Vela takes no stride above 3 beside a dilation of the other direction.",
        "a stride beside a dilation",
        named(CONVOLUTION),
    ),
    Difference(
        "dilated_size",
        "Vela refuses the transposition that takes a large dilated pool apart; 1.5.1 does not ask it.",
        "a large dilated pool",
        named(*POOLS[:2]),
    ),
    Difference(
        "no_int64",
        "64-bit integers do not cross the border: who takes them from a refused operator is refused.",
        "128 choices",
        named(CONVERT),
    ),
    Difference(
        "per_tensor",
        "Activations have one scale; RESCALE has channels in the last dimension only.",
        "channels of an activation",
    ),
    Difference(
        "explicit_indices", "Flat indices need one for each dimension.", "every row", named("aten.index_put.default")
    ),
    Difference(
        "value_dtype",
        "SCATTER and SELECT write numbers of one type, which torch converts.",
        "real values among integers",
        named("aten.index_put.default"),
    ),
    Difference("weight_dtype", "CONV2D has 8-bit weights.", "int16 weights"),
    Difference("bias_dtype", "The accumulator has 32 bits, and the bias is its start.", "int8 bias"),
    Difference(
        "weight_sum", "Vela's limit for the accumulators of Ethos-U55, which 1.5.1 leaves to it.", "heavy weights"
    ),
    Difference(
        "max_channels",
        "Vela's limit for products and pools; 1.5.1 has it for convolutions of Ethos-U55.",
        "a product of many inputs",
        named(CONVOLUTION, "aten.linear.default", *POOLS, "aten._adaptive_avg_pool2d.default"),
    ),
    Difference(
        "max_size",
        "Vela's limit for every dimension of images and matrices; 1.5.1 has it for some operators.",
        "a large matrix",
    ),
    Difference(
        "reduced_size", "A mean is a sum first; 1.5.1 limits the sum only.", "a mean over much", named("aten.mean.dim")
    ),
    Difference(
        "contiguous",
        "What is cut off is a slice and not a view.",
        "a view over more",
        named("aten.as_strided_copy.default"),
    ),
    Difference(
        "real_output",
        "1.5.1 sweeps the border once; what falls out late leaves real numbers there, which do not compile.",
        33,
    ),
    Difference(
        "borders",
        "1.5.1 makes borders that repeat the tensor of further slices only, and leaves out what they cut off.",
        "borders cut off",
        named("aten.pad.default"),
    ),
    Difference(
        "kernel_area",
        "Vela's limit for the windows of pools, which 1.5.1 does not ask of adaptive ones.",
        "a large adaptive pool",
        named("aten._adaptive_avg_pool2d.default"),
    ),
    Difference(
        "max_elements",
        "Vela ends with an error for argmax over larger images on Ethos-U55.",
        "a large image of choices",
        named("aten.argmax.default"),
    ),
    Difference(
        "resize",
        "Vela documents TOSA's level 8K: images grow 256 times at most; 1.5.1 asks that of 8k specifications only.",
        "512 times as large",
        named("aten.upsample_nearest2d.vec", "aten.upsample_bilinear2d.vec"),
    ),
    # ------------------------------------------------------------ refused: 1.5.1's partitioner ends with an error
    Difference(
        "fails at scalars",
        "1.5.1 ends with an error where a scalar is summed along a dimension, or is gathered from; here it is refused.",
        "the sum of a scalar",
        all_of(named("aten.sum.dim_IntList", "aten.gather.default"), of_a_scalar),
    ),
    # ------------------------------------------------------------ accepted: 1.5.1's partitioner ends with an error
    Difference(
        "fails without bounds",
        "1.5.1 reads the bounds by position, and ends with an error where a program leaves the default ones out.",
        "bounds left out",
        all_of(named("aten.hardtanh.default"), lambda node: len(node.args) < 3),
    ),
    Difference(
        "fails at one number",
        "1.5.1 reads two sizes of a window, or gaps in it, and ends with an error where one stands for both.",
        "one number for two",
        all_of(named(*POOLS), of_one_number),
    ),
    Difference(
        "fails at images without a batch",
        "1.5.1 reads the width of an average pool's fourth dimension where padding does not count, and ends with an "
        "error where there are three.",
        "a pool without a batch",
        all_of(named("aten.avg_pool2d.default"), lambda node: len(shape(operand(node))) == 3),
    ),
    # ---------------------------------------------------------------- accepted: Vela compiles it
    Difference(
        "accepts wide kernels",
        "Vela's document limits the height (5.1.0 compiles more); 1.5.1 looks at the width.",
        "a wide kernel",
        all_of(named(CONVOLUTION), lambda node: wide(shape(operand(node, 1))[3:], 64)),
    ),
    Difference(
        "accepts flat kernels",
        "Vela limits the depth to one slice; 1.5.1 takes the width, and the step along it, for the depth's.",
        "a flat kernel",
        all_of(named(CONVOLUTION), flat),
    ),
    Difference(
        "accepts images without a batch",
        "Vela takes them as one image; 1.5.1 takes their channels for images.",
        "an image without a batch",
        all_of(named("aten.avg_pool2d.default"), lambda node: len(shape(operand(node))) == 3),
    ),
    Difference(
        "accepts wide windows",
        "Vela's document limits the height of windows to 256 (5.1.0 compiles more); 1.5.1 limits the width.",
        "a wide pool",
        all_of(named(*POOLS), lambda node: wide(window(node)[1:], 256)),
    ),
)
