"""Applies the rules until none applies."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from torch import fx

from npu_assay.partitioners.ethosu.operators import row_of
from npu_assay.partitioners.ethosu.rewriting import arithmetic, recurrent
from npu_assay.partitioners.ethosu.rewriting.writer import Rewrite, Writer

RULES: Mapping[object, Rewrite] = {**arithmetic.RULES, **recurrent.RULES}


def rewrite(model: fx.GraphModule, quantised: Iterable[fx.Node], is_u55: bool) -> fx.GraphModule:
    """Replace the nodes that will be quantised, and what becomes of them, by operators of the device."""
    chosen = frozenset(quantised)
    for node in list(model.graph.nodes):
        if node in chosen or ((row := row_of(node)) is not None and row.annotation is None):
            _rewrite(model, node, is_u55)
    # torch counts recurrent layers as random, for the sake of their dropout, and would keep them.
    model.graph.eliminate_dead_code(lambda node: node.is_impure() and not _is_harmless(node))
    model.recompile()
    return model


def _is_harmless(node: fx.Node) -> bool:
    row = row_of(node)
    return node.target in recurrent.RULES or (row is not None and row.is_harmless)


def _rewrite(model: fx.GraphModule, node: fx.Node, is_u55: bool) -> None:
    row = row_of(node)
    rule = RULES.get(node.target) if row is None else row.rewrite
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
