"""Applies the rules until none applies."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import torch
from torch import fx

from npu_assay.partitioners.ethosu.operators import EXPORTED
from npu_assay.partitioners.ethosu.rewriting import (
    arithmetic,
    images,
    movement,
    products,
    recurrent,
    reductions,
    selection,
)
from npu_assay.partitioners.ethosu.rewriting.writer import Rewrite, Writer
from npu_assay.partitioners.exir.ops import target_name

RULES: Mapping[object, Rewrite] = {
    **arithmetic.RULES,
    **images.RULES,
    **movement.RULES,
    **products.RULES,
    **recurrent.RULES,
    **reductions.RULES,
    **selection.RULES,
}
ALWAYS = frozenset(
    {
        torch.ops.aten.select_scatter.default,
        torch.ops.aten.slice_scatter.default,
        torch.ops.aten.tril.default,
        torch.ops.aten.where.ScalarOther,
        torch.ops.aten.where.ScalarSelf,
        torch.ops.aten.masked_fill.Scalar,
        torch.ops.aten.masked_fill_.Scalar,
    }
)
"""Operators whose pieces are quantised, though they are not themselves."""
HARMLESS = frozenset({*recurrent.RULES, torch.ops.aten.detach_.default})
"""Operators that torch counts as impure, and that nobody misses when their results are not read."""


def rewrite(model: fx.GraphModule, quantised: Iterable[fx.Node], is_u55: bool) -> fx.GraphModule:
    """Replace the nodes that will be quantised, and what becomes of them, by operators of the device."""
    rules = RULES if is_u55 else {**RULES, **selection.NOT_ON_U55}
    chosen = frozenset(quantised)
    for node in list(model.graph.nodes):
        if node in chosen or node.target in ALWAYS:
            _rewrite(model, node, rules)
    # torch counts recurrent layers as random, for the sake of their dropout, and would keep them.
    model.graph.eliminate_dead_code(lambda node: node.is_impure() and node.target not in HARMLESS)
    model.recompile()
    return model


def _rewrite(model: fx.GraphModule, node: fx.Node, rules: Mapping[object, Rewrite]) -> None:
    if node.op != "call_function":
        return
    row = EXPORTED.get(target_name(node.target))
    rule = rules.get(node.target) if row is None else row.rewrite
    if rule is None:
        return
    writer = Writer(model, node)
    result = rule(writer, *node.args, **node.kwargs)
    if result is None:
        return
    if isinstance(result, fx.Node):
        node.replace_all_uses_with(result)
        model.graph.erase_node(node)
    else:
        _replace_selected(node, result)
    for made in writer.made:
        _rewrite(model, made, rules)


def _replace_selected(node: fx.Node, results: Sequence[fx.Node]) -> None:
    """Replace the selections of a node's results; what nobody reads any more is dead code."""
    for user in list(node.users):
        index = user.args[1]
        assert isinstance(index, int)  # several results are read by getitem
        user.replace_all_uses_with(results[index])
