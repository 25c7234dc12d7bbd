"""Rules that hold for every operator, and small ones that many operators share."""

from __future__ import annotations

from torch import fx

from npu_assay.partitioners.common.rules import other_meaning, qparams_change
from npu_assay.partitioners.exir.nodes import operand, rank, shape, size_text
from npu_assay.partitioners.exir.ops import DEQUANTIZE_PER_CHANNEL, GETITEM, target_name
from npu_assay.partitioners.exir.qdq import QParams, input_qparams, is_dequantize, is_quantize, output_qparams, qparams
from npu_assay.partitioners.exir.rules import rule
from npu_assay.partitioners.neutron.support.rule import Context, Rule
from npu_assay.partitioners.neutron.support.weights import LINEAR, is_bias, is_weight, through_permute

UNFUSABLE = frozenset({"aten.sigmoid.default", "aten.tanh.default"})
VIEW = "aten.view_copy.default"


@rule("fused_activation")
def fused_activation(node: fx.Node, context: Context) -> str | None:
    """sigmoid and tanh after a convolution or matrix product need their own quantization in between"""
    name = target_name(node.target)
    if name in LINEAR:
        return next((f"{user.name} uses the unquantized result" for user in _behind(node) if _is_unfusable(user)), None)
    producer = _before(node) if name in UNFUSABLE else None
    return None if producer is None else f"uses the unquantized result of {producer.name}"


def _is_unfusable(node: fx.Node) -> bool:
    return node.op == "call_function" and target_name(node.target) in UNFUSABLE


def _behind(node: fx.Node) -> list[fx.Node]:
    """Direct users, looking through reshapes."""
    users: list[fx.Node] = []
    for user in node.users:
        users += _behind(user) if target_name(user.target) == VIEW else [user]
    return users


def _before(node: fx.Node) -> fx.Node | None:
    """The convolution or matrix product that feeds `node` unquantized, looking through reshapes."""
    producer = operand(node)
    while producer is not None and target_name(producer.target) == VIEW:
        producer = operand(producer)
    return producer if producer is not None and target_name(producer.target) in LINEAR else None


@rule("quantized")
def quantized(node: fx.Node, context: Context) -> str | None:
    """the operator must stand between dequantize and quantize nodes (static int8)"""
    if fused_activation(node, context) is not None:
        return None
    found = [operand_problem(node, source) for source in node.all_input_nodes]
    found.append(result_problem(node))
    return "; ".join(dict.fromkeys(text for text in found if text is not None)) or None


def operand_problem(node: fx.Node, source: fx.Node) -> str | None:
    """Why an operand is not a number in int8, or None. Biases have a rule of their own."""
    source = through_permute(node, source)
    if not is_dequantize(source):
        return f"operand {source.name} is not dequantized"
    if is_bias(node, source):
        return None
    if target_name(source.target) == DEQUANTIZE_PER_CHANNEL:
        return None if is_weight(node, source) else f"operand {source.name} is quantized per channel"
    return _defect(f"operand {source.name}", qparams(source))


@rule("one_meaning")
def one_meaning(node: fx.Node, context: Context) -> str | None:
    """whoever reads the same codes must give them the same scale and zero point"""
    found = (other_meaning(source) for source in node.all_input_nodes if is_dequantize(source))
    return next((text for text in found if text is not None), None)


def _defect(what: str, params: QParams | None) -> str | None:
    defect = "no constant parameters" if params is None else params.defect()
    return None if defect is None else f"{what} has {defect}"


def result_problem(node: fx.Node) -> str | None:
    """Why the result does not become one int8 value, or None."""
    users = _value_users(node)
    other = next((user.name for user in users if not is_quantize(user)), None)
    if other is not None or not users:
        return f"{other} uses the unquantized result" if other is not None else "nothing uses the result"
    params = [qparams(user) for user in users]
    first = params[0]
    if first is None or _defect("the result", first) is not None:
        return _defect("the result", first)
    if (first.qmin, first.qmax) != (-128, 127):
        return f"the result has codes {first.qmin}..{first.qmax}, not -128..127"
    differ = any(p is None or not p.same_values(first) or (p.qmin, p.qmax) != (-128, 127) for p in params)
    return "the result is quantized in different ways" if differ else None


def _value_users(node: fx.Node) -> list[fx.Node]:
    """Who consumes result 0. Other results of a multi-output operator are another rule's business."""
    users: list[fx.Node] = []
    for user in node.users:
        if target_name(user.target) != GETITEM:
            users.append(user)
        elif user.args[1] == 0:
            users += user.users
    return users


@rule("static_shape")
def static_shape(node: fx.Node, context: Context) -> str | None:
    """every dimension must be a known number, at least 1"""
    for tensor in (*node.all_input_nodes, node):
        for size in shape(tensor):
            if not isinstance(size, int) or size < 1:
                return f"{tensor.name} has shape {size_text(shape(tensor))}"
    return None


def output_rank_at_most(limit: int) -> Rule:
    """The rule on the rank of the result."""

    def check(node: fx.Node, context: Context) -> str | None:
        return None if rank(node) <= limit else f"rank {rank(node)}"

    return Rule("max_rank", f"the output must have rank {limit} or less", check)


def input_rank_at_most(limit: int) -> Rule:
    """The rule on the rank of the first operand, for operators that change it."""

    def check(node: fx.Node, context: Context) -> str | None:
        found = rank(operand(node))
        return None if found <= limit else f"rank {found}"

    return Rule("max_input_rank", f"the input must have rank {limit} or less", check)


# What TFLite's kernels that read shapes, such as RESHAPE and SUB, can do.
device_rank = output_rank_at_most(8)


def output_qparams_are(scale: float, zero_point: int) -> Rule:
    """The rule on operators whose result has one possible quantization."""

    def check(node: fx.Node, context: Context) -> str | None:
        params = output_qparams(node)
        if params is None or (params.scale, params.zero_point) == (scale, zero_point):
            return None
        return f"scale {params.scale}, zero point {params.zero_point}"

    return Rule("output_qparams", f"the output must be quantized with scale {scale} and zero point {zero_point}", check)


@rule("same_qparams")
def same_qparams(node: fx.Node, context: Context) -> str | None:
    """input and output must have the same scale and zero point"""
    return qparams_change(input_qparams(node), output_qparams(node))


@rule("same_qparams")
def all_same_qparams(node: fx.Node, context: Context) -> str | None:
    """input and output must have the same scale and zero point"""
    after = output_qparams(node)
    for source in node.all_input_nodes:
        changed = qparams_change(qparams(source) if is_dequantize(source) else None, after)
        if changed is not None:
            return changed
    return None


@rule("channels_multiple_of")
def channels_multiple(node: fx.Node, context: Context) -> str | None:
    """the channel count must be a multiple of the number of MAC units"""
    return channel_count_problem(context.channels(node), context)


@rule("channels_multiple_of")
def second_dim_multiple(node: fx.Node, context: Context) -> str | None:
    """the channel count must be a multiple of the number of MAC units"""
    sizes = shape(operand(node))
    return channel_count_problem(sizes[1], context) if len(sizes) > 1 else None


def channel_count_problem(channels: int, context: Context) -> str | None:
    """What is wrong with a channel count, or None."""
    return f"{channels} channels, {context.macs} MAC units" if channels % context.macs else None


def distinct_inputs(count: int) -> Rule:
    """The rule that the operator must not get the same value twice."""

    def check(node: fx.Node, context: Context) -> str | None:
        found = len(node.all_input_nodes)
        return None if found == count else f"{found} different operands of {count}"

    return Rule("distinct_inputs", "every tensor operand must be a different node", check)
