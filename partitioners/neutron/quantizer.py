"""Neutron quantizer for torchao's PT2E flow: static int8, as the NPU's operators need it.

Install the extra `quantize` (torchao) to use it. Activations are int8 per-tensor affine, weights
symmetric int8 (per output channel for convolutions, per tensor for linear), biases int32 with
scale = input scale * weight scale. Operators that cannot rescale share their input's parameters;
sigmoid, tanh and softmax have the fixed output parameters of the TFLite int8 specification.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache, partial
from typing import Any

import torch
from torch.fx import GraphModule, Node

from npu_assay.partitioners.exir.annotations import (
    ANNOTATION,
    activation_spec,
    bias_spec,
    check_annotations,
    finite_constants,
    has_other_reals,
    is_float,
    weight_spec,
)
from npu_assay.partitioners.exir.in_place_warning import warn_changed_in_place
from npu_assay.partitioners.exir.ops import target_name
from npu_assay.partitioners.exir.pt2e import (
    FixedQParamsQuantizationSpec,
    QuantizationAnnotation,
    Quantizer,
    SharedQuantizationSpec,
)
from npu_assay.partitioners.neutron.operators import operators
from npu_assay.partitioners.neutron.operators.activation import HARDTANH, RELU
from npu_assay.partitioners.neutron.operators.row import Annotation, Row
from npu_assay.partitioners.neutron.releases import FIRST, checked_release

aten = torch.ops.aten

CONVOLUTIONS: dict[object, int] = {
    aten.conv1d.default: 0,
    aten.conv2d.default: 0,
    aten.convolution.default: 0,
    aten.conv_transpose2d.input: 1,
}
"""Convolution -> the weight axis of the output channels."""

NAMED_PADDING: dict[object, Any] = {
    aten.conv1d.padding: aten.conv1d.default,
    aten.conv2d.padding: aten.conv2d.default,
}
"""Convolution whose padding is a name -> the same with numbers."""


@cache
def annotated(release: str) -> Mapping[str, Row]:
    """The rows of the operators that exported programs have, as a release has them."""
    return {
        name: row
        for own_name, row in operators(release).items()
        if row.exported is not None
        for name in (*((own_name,) if row.exported.has_own_name else ()), *row.exported.others)
    }


SPLITS = frozenset({aten.split.Tensor, aten.split_with_sizes.default, aten.chunk.default})


def _bias_qparams(per_channel: bool, observers: Sequence[Any]) -> tuple[torch.Tensor, torch.Tensor]:
    input_scale, _ = observers[0].calculate_qparams()
    weight_scale, _ = observers[1].calculate_qparams()
    scale = input_scale.to(torch.float32) * weight_scale.to(torch.float32)
    scale = scale if per_channel else scale.reshape(1)
    return scale, torch.zeros_like(scale, dtype=torch.int64)


def is_relu_like(node: Node) -> bool:
    """Whether the node only clamps to [0, inf) or [0, 6], which a preceding operator can absorb."""
    row = annotated(FIRST).get(target_name(node.target))
    # 0 and 0.0 are equal.
    return row is RELU or (row is HARDTANH and node.args[1:3] in {(0.0, 6.0), (0.0, float("inf"))})


def fused_activation(node: Node) -> Node | None:
    """The activation that is quantized together with `node`: its only user, when that is relu-like."""
    users = list(node.users)
    return users[0] if len(users) == 1 and is_relu_like(users[0]) else None


def split_to_slices(model: GraphModule) -> None:
    """Replace split + getitem by slices, one per chunk, so that every chunk is one tensor."""
    for node in [n for n in model.graph.nodes if n.target in SPLITS]:
        dim = node.args[2] if len(node.args) > 2 else node.kwargs.get("dim", 0)
        start = 0
        for index, chunk in enumerate(node.meta["val"]):
            size = chunk.shape[dim]
            for getitem in [user for user in node.users if user.args[1] == index]:
                with model.graph.inserting_before(getitem):
                    piece = model.graph.call_function(aten.slice.Tensor, (node.args[0], dim, start, start + size))
                piece.meta = dict(getitem.meta)
                getitem.replace_all_uses_with(piece)
            start += size
    model.graph.eliminate_dead_code()
    model.recompile()


def explicit_padding(model: GraphModule) -> None:
    """Replace padding="same" and "valid" by numbers, with a pad in front where the two sides differ (even kernels)."""
    for node in [n for n in model.graph.nodes if n.target in NAMED_PADDING]:
        arguments = normalized_arguments(node)
        before, after = _same_padding(arguments) if arguments["padding"] == "same" else ([], [])
        before = before or [0] * len(arguments["stride"])
        if after and before != after:
            pads = [amount for pair in zip(reversed(before), reversed(after), strict=True) for amount in pair]
            arguments["input"] = _padded(arguments["input"], pads, node)
            before = [0] * len(before)
        node.target = NAMED_PADDING[node.target]
        node.args, node.kwargs = tuple({**arguments, "padding": before}.values()), {}
    model.recompile()


def normalized_arguments(node: Node) -> dict[str, Any]:
    """Every argument of a convolution by name, in the order of its schema, sizes as lists."""
    schema = node.target._schema.arguments  # type: ignore[union-attr]  # an overload
    given = dict(zip((argument.name for argument in schema), node.args, strict=False)) | dict(node.kwargs)
    found = {argument.name: given.get(argument.name, argument.default_value) for argument in schema}
    spatial = found["weight"].meta["val"].dim() - 2
    lists = {name: [*found[name]] * (spatial if len(found[name]) == 1 else 1) for name in ("stride", "dilation")}
    return found | lists


def _same_padding(arguments: dict[str, Any]) -> tuple[list[int], list[int]]:
    """What goes before and after each spatial dimension so that the size stays; an odd amount has more after."""
    kernel = arguments["weight"].meta["val"].shape[2:]
    whole = [dilation * (size - 1) for size, dilation in zip(kernel, arguments["dilation"], strict=True)]
    return [amount // 2 for amount in whole], [amount - amount // 2 for amount in whole]


def _padded(x: Node, pads: list[int], user: Node) -> Node:
    with x.graph.inserting_before(user):
        made = x.graph.call_function(aten.constant_pad_nd.default, (x, pads, 0.0))
    made.meta = {key: value for key, value in user.meta.items() if key != "val"}
    made.meta["val"] = aten.constant_pad_nd.default(x.meta["val"], pads, 0.0)
    return made


class NeutronQuantizer(Quantizer):  # type: ignore[misc]  # torchao has no annotations
    """Annotates every operator that the Neutron NPU runs; everything else stays float.

    Use with `torchao.quantization.pt2e.quantize_pt2e.prepare_pt2e` and `convert_pt2e`.

    release: NXP's release of operator support, "1.3" or "1.4". Raises ValueError for another one.
    """

    def __init__(self, release: str = FIRST) -> None:
        super().__init__()
        self.release = checked_release(release)

    def transform_for_annotation(self, model: GraphModule) -> GraphModule:
        """Rewrites that must happen before observers are placed.

        Warns with a ClampedConstantWarning where infinite constants become finite, e.g. those of a mask.
        """
        split_to_slices(model)
        explicit_padding(model)
        warn_changed_in_place(model, type(self).__name__)
        finite_constants(model, type(self).__name__, self.annotate)
        return model

    def annotate(self, model: GraphModule) -> GraphModule:
        """Annotate in graph order, so that a producer is annotated before its consumers."""
        for node in model.graph.nodes:
            annotation = _annotation(node, annotated(self.release))
            if annotation is not None:
                annotation._annotated = True
                node.meta[ANNOTATION] = annotation
        return model

    def validate(self, model: GraphModule) -> None:
        """Raise ValueError for an annotation of what is not an input."""
        check_annotations(model)


def _annotation(node: Node, rows: Mapping[str, Row]) -> QuantizationAnnotation | None:
    if (
        node.op != "call_function"
        or node.meta.get(ANNOTATION) is not None
        or not is_float(node)
        or has_other_reals(node)
    ):
        return None
    if node.target in CONVOLUTIONS or node.target in (aten.linear.default, aten.addmm.default):
        return _annotate_weighted(node)
    if node.target is aten.cat.default:
        return _annotate_tied(node, node.args[0])
    if node.target is aten.div.Tensor:
        # The divisor stays float: its reciprocal is what the NPU holds.
        specs = {operand: activation_spec() for operand in _tensor_inputs(node)[:1]}
        return QuantizationAnnotation(input_qspec_map=specs, output_qspec=activation_spec())
    row = rows.get(target_name(node.target))
    return None if row is None else _annotate_row(node, row)


def _tensor_inputs(node: Node) -> list[Node]:
    return [argument for argument in node.all_input_nodes if is_float(argument)]


def _annotate_weighted(node: Node) -> QuantizationAnnotation | None:
    """Convolution, linear or addmm; a relu-like activation after it takes over the output.

    A transposed convolution with groups stays float: the NPU has none, and its scales do not fit the bias.
    """
    if node.target is aten.conv_transpose2d.input and (node.args[6:7] or (node.kwargs.get("groups", 1),)) != (1,):
        return None
    operands: list[Any] = [*node.args[:3], None][:3]
    bias, data, weight = operands if node.target is aten.addmm.default else [operands[2], *operands[:2]]
    axis = CONVOLUTIONS.get(node.target)
    specs = {data: activation_spec(), weight: weight_spec(axis)}
    if isinstance(bias, Node):
        per_channel = axis is not None
        specs[bias] = bias_spec(node, data, weight, per_channel, partial(_bias_qparams, per_channel))
    activation = fused_activation(node)
    if activation is None:
        return QuantizationAnnotation(input_qspec_map=specs, output_qspec=activation_spec())
    activation.meta[ANNOTATION] = QuantizationAnnotation(output_qspec=activation_spec(), _annotated=True)
    return QuantizationAnnotation(input_qspec_map=specs)


def _annotate_tied(node: Node, operands: Any) -> QuantizationAnnotation:
    """All operands, nodes of the graph, and the output share the first one's parameters."""
    inputs: list[Node] = list(dict.fromkeys(operands))
    shared = SharedQuantizationSpec((inputs[0], node))
    specs = {inputs[0]: activation_spec()} | dict.fromkeys(inputs[1:], shared)
    return QuantizationAnnotation(input_qspec_map=specs, output_qspec=shared)


def _annotate_shared(node: Node) -> QuantizationAnnotation | None:
    """Output = input's parameters; left float when the producer is float, for then nothing is gained."""
    source = node.args[0]
    if not isinstance(source, Node) or not (source.op == "placeholder" or source.meta.get(ANNOTATION)):
        return None
    return QuantizationAnnotation(
        input_qspec_map={source: activation_spec()}, output_qspec=SharedQuantizationSpec((source, node))
    )


def _annotate_free(node: Node, symmetric: bool = False) -> QuantizationAnnotation | None:
    inputs = _tensor_inputs(node)
    weights = {aten.mm.default, aten.prelu.default}
    specs = {n: activation_spec(symmetric=symmetric) for n in inputs}
    if node.target in weights and len(inputs) == 2 and inputs[1].op == "get_attr":
        specs[inputs[1]] = weight_spec(None)
    return QuantizationAnnotation(input_qspec_map=specs, output_qspec=activation_spec())


def _annotate_row(node: Node, row: Row) -> QuantizationAnnotation | None:
    annotation = Annotation.FREE if row.exported is None else row.exported.annotation
    if annotation is Annotation.SHARED:
        return _annotate_shared(node)
    if annotation is Annotation.TIED:
        return _annotate_tied(node, _tensor_inputs(node))
    if row.fixed_output is None:
        return _annotate_free(node, annotation is Annotation.SYMMETRIC)
    scale, zero_point = row.fixed_output
    output = FixedQParamsQuantizationSpec(
        dtype=torch.int8, scale=scale, zero_point=zero_point, quant_min=-128, quant_max=127
    )
    return QuantizationAnnotation(
        input_qspec_map={n: activation_spec() for n in _tensor_inputs(node)}, output_qspec=output
    )
