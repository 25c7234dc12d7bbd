"""XNNPACK quantizer for torchao's PT2E flow: static int8, or int8 activations quantized at run time.

Install the extra `quantize` (torchao) to use it. Activations are int8 per-tensor affine, weights symmetric int8 per
tensor or per output channel; biases stay real numbers, which the compiler quantizes. A relu after a linear
operator, a convolution, a sum or an element-wise product takes over its annotated output; operators that only pick,
move or clamp numbers keep the scale and zero point of their operand, if that is quantized. Every other operator stays
real.

    quantizer = XnnpackQuantizer().set_global(get_symmetric_quantization_config(is_per_channel=True))
    prepared = prepare_pt2e(torch.export.export(model, inputs).module(), quantizer)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any

import torch
from torch.fx import GraphModule, Node

from npu_assay.partitioners.exir.annotations import (
    ANNOTATION,
    SMALLEST_SCALE,
    activation_spec,
    check_annotations,
    finite_constants,
    has_other_reals,
    weight_spec,
)
from npu_assay.partitioners.exir.in_place_warning import warn_changed_in_place
from npu_assay.partitioners.exir.pt2e import (
    PlaceholderObserver,
    QuantizationAnnotation,
    QuantizationSpec,
    Quantizer,
    SharedQuantizationSpec,
)

aten = torch.ops.aten

LINEARS: frozenset[object] = frozenset({aten.linear.default})
CONVOLUTIONS: frozenset[object] = frozenset(
    {aten.conv1d.default, aten.conv1d.padding, aten.conv2d.default, aten.conv2d.padding}
)
TRANSPOSED: frozenset[object] = frozenset({aten.conv_transpose1d.default, aten.conv_transpose2d.input})
SUMS: frozenset[object] = frozenset({aten.add.Tensor, aten.add_.Tensor})
MULTIPLICATIONS: frozenset[object] = frozenset({aten.mul.Tensor, aten.mul_.Tensor})
CATS: frozenset[object] = frozenset({aten.cat.default})
RELUS: frozenset[object] = frozenset({aten.relu.default, aten.relu_.default})
SCALARS = frozenset({aten.add.Tensor, aten.mul.Tensor})
"""Operators whose scalar operands become constants."""

KEEP_INPUT: frozenset[object] = frozenset(
    {
        aten.adaptive_avg_pool2d.default,
        aten.dropout.default,
        aten.dropout_.default,
        aten.flatten.using_ints,
        aten.hardtanh.default,
        aten.hardtanh_.default,
        aten.max_pool2d.default,
        aten.mean.default,
        aten.mean.dim,
        aten.permute.default,
        aten.permute_copy.default,
        aten.relu.default,
        aten.reshape.default,
        aten.slice.Tensor,
        aten.slice_copy.Tensor,
        aten.squeeze.dim,
        aten.squeeze_copy.dim,
        aten.transpose.int,
        aten.view.default,
        aten.view_copy.default,
    }
)
"""Operators whose output has the input's parameters, where the input has any."""

LARGEST_SCALAR = 3.4028235e15
"""Above it the observers' histograms fail."""

Annotations = Mapping[Node, QuantizationAnnotation]


@dataclass(frozen=True)
class QuantizationConfig:
    """How to quantize: weights per tensor or per output channel, activations ahead of time or at run time."""

    is_per_channel: bool = False
    is_dynamic: bool = False

    def activation(self) -> QuantizationSpec:
        """int8 [-128, 127], per-tensor affine."""
        return dynamic_spec() if self.is_dynamic else activation_spec()

    def output(self) -> QuantizationSpec | None:
        """None where results stay real."""
        return None if self.is_dynamic else activation_spec()

    def weight(self, axis: int) -> QuantizationSpec:
        """int8 [-127, 127], symmetric."""
        return weight_spec(axis if self.is_per_channel else None)


def get_symmetric_quantization_config(is_per_channel: bool = False, is_dynamic: bool = False) -> QuantizationConfig:
    """A configuration by the name that ExecuTorch's users know; dynamic products need weights per channel."""
    return QuantizationConfig(is_per_channel, is_dynamic)


def dynamic_spec() -> QuantizationSpec:
    """int8 [-128, 127], per-tensor affine with parameters chosen at run time."""
    return QuantizationSpec(
        dtype=torch.int8,
        observer_or_fake_quant_ctr=PlaceholderObserver.with_args(eps=SMALLEST_SCALE),
        quant_min=-128,
        quant_max=127,
        qscheme=torch.per_tensor_affine,
        is_dynamic=True,
    )


# ------------------------------------------------------------------------------------ rules


def _linear_relu(node: Node, config: QuantizationConfig) -> Annotations:
    relu = only_relu(node)
    return {} if relu is None else _product(node, config, 0, relu)


def _linear(node: Node, config: QuantizationConfig) -> Annotations:
    return _product(node, config, 0, None)


def _convolution(node: Node, config: QuantizationConfig) -> Annotations:
    """Not at run time: before a relu, with one input channel per group, other than of images."""
    relu, weight = only_relu(node), _shape(node.args[1])
    if config.is_dynamic and (relu is not None or len(weight) != 4 or weight[1] == 1):
        return {}
    return _product(node, config, 0, relu)


def _transposed(node: Node, config: QuantizationConfig) -> Annotations:
    """With one group; at run time of images only, and not before a relu."""
    relu, weight = only_relu(node), _shape(node.args[1])
    grouped = weight[1] != node.meta["val"].shape[1]
    if grouped or (config.is_dynamic and (relu is not None or len(weight) != 4)):
        return {}
    return _product(node, config, 1, relu)


def _product(node: Node, config: QuantizationConfig, axis: int, relu: Node | None) -> Annotations:
    data, weight = node.args[:2]
    assert isinstance(data, Node) and isinstance(weight, Node)  # by the operators' schemas
    return _with_relu(node, {data: config.activation(), weight: config.weight(axis)}, config.output(), relu)


def _elementwise_relu(node: Node, config: QuantizationConfig) -> Annotations:
    relu = only_relu(node)
    return {} if relu is None else _elementwise_of(node, config, relu)


def _elementwise(node: Node, config: QuantizationConfig) -> Annotations:
    return _elementwise_of(node, config, None)


def _elementwise_of(node: Node, config: QuantizationConfig, relu: Node | None) -> Annotations:
    inputs = node.all_input_nodes
    if not all(_is_observable(operand) for operand in inputs):
        return {}
    return _with_relu(node, {operand: config.activation() for operand in inputs}, config.output(), relu)


def _with_relu(
    node: Node, inputs: Mapping[Node, Any], output: QuantizationSpec | None, relu: Node | None
) -> Annotations:
    if relu is None:
        return {node: QuantizationAnnotation(input_qspec_map=inputs, output_qspec=output)}
    return {
        node: QuantizationAnnotation(input_qspec_map=inputs),
        relu: QuantizationAnnotation(output_qspec=output),
    }


def _cat(node: Node, config: QuantizationConfig) -> Annotations:
    """All inputs and the output have the same parameters: those of the first input that has any."""
    inputs = list(dict.fromkeys(node.all_input_nodes))
    owner = next((source for source in inputs if _has_parameters(source)), inputs[0])
    shared = SharedQuantizationSpec((owner, node))
    specs = {owner: config.activation()} | {source: shared for source in inputs if source is not owner}
    return {node: QuantizationAnnotation(input_qspec_map=specs, output_qspec=shared)}


@dataclass(frozen=True)
class Rule:
    """How operators are annotated; `at_run_time`: also where activations are quantized at run time."""

    targets: frozenset[object]
    annotate: Callable[[Node, QuantizationConfig], Annotations]
    at_run_time: bool = False


RULES = (
    Rule(LINEARS, _linear_relu),
    Rule(LINEARS, _linear, at_run_time=True),
    Rule(CONVOLUTIONS, _convolution, at_run_time=True),
    Rule(TRANSPOSED, _transposed, at_run_time=True),
    Rule(SUMS, _elementwise_relu),
    Rule(SUMS, _elementwise),
    Rule(MULTIPLICATIONS, _elementwise_relu),
    Rule(MULTIPLICATIONS, _elementwise),
    Rule(CATS, _cat),
)
"""In this order: a rule annotates only what those before it left."""


# ------------------------------------------------------------------------------------ nodes


def only_relu(node: Node) -> Node | None:
    """The relu that alone uses the result, or None."""
    users = list(node.users)
    return users[0] if len(users) == 1 and users[0].target in RELUS else None


def _shape(node: object) -> torch.Size:
    assert isinstance(node, Node)
    shape: torch.Size = node.meta["val"].shape
    return shape


def _is_observable(node: Node) -> bool:
    """Whether an observer takes the values: float32, and no single number that is too large."""
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor) or value.dtype != torch.float32:
        return False
    constant = _constant(node)
    return constant is None or constant.numel() != 1 or abs(float(constant)) <= LARGEST_SCALAR


def _constant(node: Node) -> torch.Tensor | None:
    module = node.graph.owning_module
    if node.op != "get_attr" or module is None:
        return None
    path, _, name = str(node.target).rpartition(".")
    found = getattr(module.get_submodule(path), name)
    return found if isinstance(found, torch.Tensor) else None


def _has_output(node: Node) -> bool:
    annotation = node.meta.get(ANNOTATION)
    return annotation is not None and annotation.output_qspec is not None


def _has_parameters(node: Node) -> bool:
    """Whether the value is quantized, itself or through operators that keep their input's parameters."""
    while not _has_output(node):
        source = node.args[0] if node.op == "call_function" and node.target in KEEP_INPUT else None
        if not isinstance(source, Node):
            return False
        node = source
    return True


# ------------------------------------------------------------------------------------ quantizer

Filter = Callable[[Node], bool]


class XnnpackQuantizer(Quantizer):  # type: ignore[misc]  # torchao has no annotations
    """Annotates what XNNPACK computes on codes. Use with torchao's `prepare_pt2e` and `convert_pt2e`.

    The configuration of a module's name has priority over that of a module's type, then an operator's, then the global
    one. Without any, nothing is quantized.
    """

    def __init__(self) -> None:
        super().__init__()
        self._global: QuantizationConfig | None = None
        self._names: dict[str, QuantizationConfig] = {}
        self._types: dict[str, QuantizationConfig] = {}
        self._operators: dict[object, QuantizationConfig] = {}
        self._filter: Filter = lambda node: True

    def set_global(self, config: QuantizationConfig) -> XnnpackQuantizer:
        """For all that has no configuration of its own."""
        self._global = config
        return self

    def set_module_name(self, name: str, config: QuantizationConfig) -> XnnpackQuantizer:
        """For what a submodule computes, e.g. "blocks.0"."""
        self._names[name] = config
        return self

    def set_module_type(self, kind: type[torch.nn.Module], config: QuantizationConfig) -> XnnpackQuantizer:
        """For what submodules of one class compute."""
        self._types[f"{kind.__module__}.{kind.__qualname__}"] = config
        return self

    def set_operator_type(self, operator: object, config: QuantizationConfig) -> XnnpackQuantizer:
        """For one operator, e.g. torch.ops.aten.linear.default."""
        self._operators[operator] = config
        return self

    def set_filter_function(self, keep: Filter) -> XnnpackQuantizer:
        """Quantize only nodes for which `keep` is true."""
        self._filter = keep
        return self

    def transform_for_annotation(self, model: GraphModule) -> GraphModule:
        """Rewrites that must happen before observers are placed.

        Warns with a ClampedConstantWarning where infinite constants become finite, e.g. those of a mask.
        """
        warn_changed_in_place(model, type(self).__name__)
        scalars_to_constants(model)
        finite_constants(model, type(self).__name__, self.annotate)
        return model

    def annotate(self, model: GraphModule) -> GraphModule:
        """Rule by rule, then on to the operators that keep their input's parameters."""
        for rule in RULES:
            for node in model.graph.nodes:
                config = self._config(node) if node.target in rule.targets and not has_other_reals(node) else None
                if config is not None and (rule.at_run_time or not config.is_dynamic):
                    self._annotate(rule.annotate(node, config) if node.meta.get(ANNOTATION) is None else {})
        propagate(model)
        return model

    def validate(self, model: GraphModule) -> None:
        """Raise ValueError for an annotation of what is not an input."""
        check_annotations(model)

    def _config(self, node: Node) -> QuantizationConfig | None:
        if node.op != "call_function":
            return None
        modules = node.meta.get("nn_module_stack", {}).values()
        names, types = {path for path, _ in modules}, {kind for _, kind in modules}
        named = [config for name, config in self._names.items() if name in names]
        typed = [config for kind, config in self._types.items() if kind in types]
        return (*named, *typed, self._operators.get(node.target, self._global))[0]

    def _annotate(self, annotations: Annotations) -> None:
        """All of them or none: nothing that is annotated already, nothing that the filter leaves out."""
        if all(node.meta.get(ANNOTATION) is None and self._filter(node) for node in annotations):
            for node, annotation in annotations.items():
                _set(node, annotation)


def _set(node: Node, annotation: QuantizationAnnotation) -> None:
    annotation._annotated = True
    node.meta[ANNOTATION] = annotation


def propagate(model: GraphModule) -> None:
    """Give operators that keep their input's parameters those of an annotated producer."""
    for node in model.graph.nodes:
        source = node.args[0] if node.target in KEEP_INPUT and node.meta.get(ANNOTATION) is None else None
        if isinstance(source, Node) and _has_output(source):
            shared = SharedQuantizationSpec(source)
            _set(node, QuantizationAnnotation(input_qspec_map={source: shared}, output_qspec=shared))


def scalars_to_constants(model: GraphModule) -> None:
    """Replace the numbers that sums and products take by 0-d buffers, which observers can see.

    Sums of integers, such as positions, are not changed: with a float constant they could not be indices.
    """
    names = (name for index in count() if not hasattr(model, name := f"_tensor_constant_{index}"))
    for node in [node for node in model.graph.nodes if node.target in SCALARS]:
        if not node.meta["val"].dtype.is_floating_point or has_other_reals(node):
            continue
        node.args = tuple(
            operand if isinstance(operand, Node) else _scalar(model, next(names), operand, node)
            for operand in node.args
        )
    model.recompile()


def _scalar(model: GraphModule, name: str, number: Any, user: Node) -> Node:
    tensor = torch.tensor(float(number))
    model.register_buffer(name, tensor)
    with model.graph.inserting_before(user):
        constant = model.graph.get_attr(name)
    constant.meta["val"] = user.meta["val"].fake_mode.from_tensor(tensor, static_shapes=True)
    return constant
