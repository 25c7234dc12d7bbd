"""Applies the rules until none applies."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from torch import fx

from npu_assay.partitioners.ethosu.operators import row_of
from npu_assay.partitioners.ethosu.rewriting.writer import Writer


def rewrite(model: fx.GraphModule, quantised: Iterable[fx.Node], is_u55: bool) -> fx.GraphModule:
    """Replace the nodes that will be quantized, and what becomes of them, by operators of the device."""
    chosen = frozenset(quantised)
    for node in list(model.graph.nodes):
        if node in chosen or ((row := row_of(node)) is not None and row.annotation is None):
            _rewrite(model, node, is_u55)
    # torch counts recurrent layers as random, for the sake of their dropout, and would keep them.
    model.graph.eliminate_dead_code(lambda node: node.is_impure() and not row_of(node).is_harmless)
    model.recompile()
    return model


def _rewrite(model: fx.GraphModule, node: fx.Node, is_u55: bool) -> None:
    rule = row_of(node).rewrite
    if rule is None:
        return
    writer = Writer(model, node, is_u55)
    result = rule(writer, *node.args, **node.kwargs)
    if result is None:
        return
    if isinstance(result, fx.Node):
        node.replace_all_uses_with(result)
        model.graph.erase_node(node)
    else:
        _replace_selected(node, result)
    for made in writer.made:
        _rewrite(model, made, is_u55)


def _replace_selected(node: fx.Node, results: Sequence[fx.Node]) -> None:
    """Replace the selections of a node's results; what nobody reads any more is dead code."""
    for user in list(node.users):
        index = user.args[1]
        assert isinstance(index, int)  # several results are read by getitem
        user.replace_all_uses_with(results[index])
