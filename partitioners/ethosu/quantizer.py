"""Ethos-U quantizer for torchao's PT2E flow: int8 or int16 activations, int8 weights.

Install the extra `quantize` (torchao) to use it. Before calibration the model is rewritten into operators of the
device: a softmax into sums and tables, a norm into sums and products, numbers into constants. Each of them has an
observer of its own, because on the device it has codes of its own.

    spec = EthosUCompileSpec("ethos-u55-128")
    quantizer = EthosUQuantizer(spec).set_global(get_symmetric_quantization_config())
    prepared = prepare_pt2e(torch.export.export(model, inputs).module(check_guards=False), quantizer)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
from torch._ops import OpOverload
from torch.fx import GraphModule, Node

from npu_assay.partitioners.ethosu.compile_spec import EthosUCompileSpec
from npu_assay.partitioners.ethosu.quantizing.annotating import annotate, annotate_shared, unmark
from npu_assay.partitioners.ethosu.quantizing.config import (
    QuantizationConfig,
    get_symmetric_a16w8_quantization_config,
    get_symmetric_quantization_config,
)
from npu_assay.partitioners.ethosu.quantizing.own_constants import own_constants
from npu_assay.partitioners.ethosu.quantizing.rewriting import rewrite
from npu_assay.partitioners.ethosu.support.common import MARK
from npu_assay.partitioners.exir.annotations import check_annotations, finite_constants
from npu_assay.partitioners.exir.in_place_warning import warn_changed_in_place
from npu_assay.partitioners.exir.pt2e import Quantizer

__all__ = [
    "EthosUQuantizer",
    "QuantizationConfig",
    "get_symmetric_a16w8_quantization_config",
    "get_symmetric_quantization_config",
]

Finder = Callable[[Node], bool]
"""Whether a configuration is for a node."""


@dataclass(frozen=True)
class _Choice:
    finder: Finder
    config: QuantizationConfig | None


class EthosUQuantizer(Quantizer):  # type: ignore[misc]  # torchao has no annotations
    """Rewrites and annotates what Ethos-U computes. Use with torchao's `prepare_pt2e` and `convert_pt2e`.

    compile_spec: what to quantize for.

    Of the configurations that match a node, the one that was set last applies; the global one applies to all other
    nodes. Nodes with the configuration None, or without any, stay as they are.
    """

    def __init__(self, compile_spec: EthosUCompileSpec) -> None:
        super().__init__()
        if not isinstance(compile_spec, EthosUCompileSpec):
            raise TypeError(f"compile_spec is a {type(compile_spec).__name__}, expected an EthosUCompileSpec")
        self.compile_spec = compile_spec
        self._global: _Choice | None = None
        self._choices: list[_Choice] = []

    def set_global(self, quantization_config: QuantizationConfig | None) -> EthosUQuantizer:
        """For all that has no configuration of its own."""
        self._global = _Choice(lambda node: True, quantization_config)
        return self

    def set_module_type(
        self, module_type: type[torch.nn.Module], quantization_config: QuantizationConfig | None
    ) -> EthosUQuantizer:
        """For what submodules of one class compute."""
        wanted = f"{module_type.__module__}.{module_type.__qualname__}"
        return self.set_node_finder(quantization_config, lambda node: wanted in (kind for _, kind in _modules(node)))

    def set_module_name(self, module_name: str, quantization_config: QuantizationConfig | None) -> EthosUQuantizer:
        """For what a submodule computes, e.g. "blocks.0"."""
        return self.set_node_finder(
            quantization_config, lambda node: module_name in (path for path, _ in _modules(node))
        )

    def set_io(self, quantization_config: QuantizationConfig | None) -> EthosUQuantizer:
        """For the model's inputs and outputs."""
        return self.set_node_finder(quantization_config, lambda node: node.op in ("placeholder", "output"))

    def set_node_target(
        self, node_target: OpOverload, quantization_config: QuantizationConfig | None
    ) -> EthosUQuantizer:
        """For one operator, e.g. torch.ops.aten.linear.default."""
        return self.set_node_finder(quantization_config, lambda node: node.target is node_target)

    def set_node_name(self, node_name: str, quantization_config: QuantizationConfig | None) -> EthosUQuantizer:
        """For one node of the graph."""
        return self.set_node_finder(quantization_config, lambda node: node.name == node_name)

    def set_node_finder(self, quantization_config: QuantizationConfig | None, node_finder: Finder) -> EthosUQuantizer:
        """For the nodes for which `node_finder` is true."""
        self._choices.insert(0, _Choice(node_finder, quantization_config))
        return self

    def transform_for_annotation(self, model: GraphModule) -> GraphModule:
        """Rewrite what will be quantized into what the device has; see `finite_constants` about infinite numbers."""
        warn_changed_in_place(model, type(self).__name__)
        self.annotate(model)
        calls = [node for node in model.graph.nodes if node.op == "call_function"]
        quantised = [node for node in calls if node.meta.get("custom", {}).get(MARK, {}).get("quantized")]
        for node in model.graph.nodes:
            unmark(node)
        rewritten = rewrite(model, quantised, self.compile_spec.tosa_spec.is_u55_subset)
        finite_constants(rewritten, type(self).__name__, self.annotate)
        for node in rewritten.graph.nodes:
            unmark(node)
        own_constants(rewritten)
        return rewritten

    def annotate(self, model: GraphModule) -> GraphModule:
        """By the configurations, then on to the operators that share their neighbors' parameters."""
        for choice in self._in_order():
            annotate([node for node in model.graph.nodes if choice.finder(node)], choice.config)
        annotate_shared(model)
        return model

    def validate(self, model: GraphModule) -> None:
        """Raise ValueError for an annotation of what is not an input, and for operands on different devices."""
        check_annotations(model)
        for node in model.graph.nodes:
            tensors = (source.meta.get("val") for source in node.all_input_nodes)
            devices = {str(tensor.device) for tensor in tensors if isinstance(tensor, torch.Tensor)}
            if len(devices) > 1:
                raise ValueError(f"{node.name}: operands on {' and '.join(sorted(devices))}, expected one device")

    def _in_order(self) -> Iterable[_Choice]:
        return self._choices if self._global is None else [*self._choices, self._global]


def _modules(node: Node) -> Iterable[tuple[str, str]]:
    """Path and class of the submodules that computed a node."""
    found: Iterable[tuple[str, str]] = node.meta.get("nn_module_stack", {}).values()
    return found
