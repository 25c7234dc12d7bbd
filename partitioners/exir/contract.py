"""The partitioning contract: a partitioner adds tags, and nothing else.

Each check raises ContractError naming the node at fault. `tagged_nodes` runs all of them and
returns what the partitioner asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import fx
from torch.export import ExportedProgram

from npu_assay.partitioners.exir.backend import CompileSpec
from npu_assay.partitioners.exir.backend.partitioner import DELEGATION_TAG, DelegationSpec, PartitionResult
from npu_assay.partitioners.exir.constants import user_inputs
from npu_assay.partitioners.exir.errors import ContractError
from npu_assay.partitioners.exir.ops import target_name
from npu_assay.partitioners.exir.values import describe


def tagged_nodes(program: ExportedProgram, result: object, partitioner: str) -> dict[fx.Node, str]:
    """The tag of every tagged node of the program that the partitioner returned.

    `program` is the one the partitioner started from and `partitioner` its name in messages.
    """
    if not isinstance(result, PartitionResult):
        raise ContractError(
            "partition() returned something else", type(result).__name__, "a PartitionResult", partitioner
        )
    tagged = result.tagged_exported_program
    if not isinstance(tagged, ExportedProgram):
        raise ContractError(
            "tagged_exported_program of the wrong type",
            type(tagged).__name__,
            "the ExportedProgram given to partition()",
            partitioner,
        )
    check_partition_tags(result.partition_tags, partitioner)
    check_unchanged(program, tagged)
    tags = {n: n.meta[DELEGATION_TAG] for n in tagged.graph.nodes if n.meta.get(DELEGATION_TAG) is not None}
    check_tags(tagged, tags, result.partition_tags)
    return tags


def check_partition_tags(partition_tags: object, partitioner: str) -> None:
    """Refuse anything but a dictionary of DelegationSpec by name."""
    if not isinstance(partition_tags, Mapping):
        raise ContractError(
            "partition_tags of the wrong type",
            type(partition_tags).__name__,
            "a dict from tag to DelegationSpec",
            partitioner,
        )
    for tag, spec in partition_tags.items():
        _check_spec(tag, spec, partitioner)


def _check_spec(tag: object, spec: object, partitioner: str) -> None:
    where = f"{partitioner}, partition_tags[{tag!r}]"
    if not isinstance(tag, str):
        raise ContractError("tag of the wrong type", type(tag).__name__, "a str", where)
    if not isinstance(spec, DelegationSpec):
        raise ContractError("value of the wrong type", type(spec).__name__, "a DelegationSpec", where)
    if not isinstance(spec.backend_id, str):
        raise ContractError("backend_id of the wrong type", type(spec.backend_id).__name__, "a str", where)
    if not isinstance(spec.compile_specs, list) or not all(isinstance(s, CompileSpec) for s in spec.compile_specs):
        raise ContractError("compile_specs of the wrong type", repr(spec.compile_specs), "a list of CompileSpec", where)


def check_tags(program: ExportedProgram, tags: Mapping[fx.Node, object], known: Iterable[str]) -> None:
    """Refuse tags that are unknown or sit on a user input or on the output node."""
    inputs = set(user_inputs(program))
    known = set(known)
    for node, tag in tags.items():
        if not isinstance(tag, str) or tag not in known:
            raise ContractError("tag missing from partition_tags", repr(tag), f"one of {sorted(known)}", node.name)
        if node.op == "output" or node in inputs:
            kind = "output node" if node.op == "output" else "user input"
            raise ContractError(f"a tagged {kind}", f"tag {tag!r}", "no tag: only operators and constants", node.name)


def check_unchanged(before: ExportedProgram, after: ExportedProgram) -> None:
    """Compare node by node; refuse any difference in order, names, operators, arguments or values."""
    check_same_graph(before.graph, after.graph)
    check_bodies(before.graph_module, after.graph_module)
    _check_signature(before, after)


def check_bodies(before: fx.GraphModule, after: fx.GraphModule) -> None:
    """As `check_unchanged`, for control flow bodies, in which tags are refused: only a whole body is delegated."""
    bodies = {name: body for name, body in after.named_children() if isinstance(body, fx.GraphModule)}
    for name, body in before.named_children():
        if not isinstance(body, fx.GraphModule):
            continue
        if name not in bodies:
            raise ContractError("partition() removed a body", "none", "a GraphModule", name)
        check_same_graph(body.graph, bodies[name].graph)
        check_bodies(body, bodies[name])
        for node in bodies[name].graph.nodes:
            if node.meta.get(DELEGATION_TAG) is not None:
                raise ContractError(
                    "a tag inside a control flow body",
                    f"tag {node.meta[DELEGATION_TAG]!r}",
                    "tags in the top graph only",
                    f"{name}.{node.name}",
                )


def check_same_graph(before: fx.Graph, after: fx.Graph) -> None:
    """Refuse any difference between two graphs' nodes but their meta."""
    old, new = list(before.nodes), list(after.nodes)
    for left, right in zip(old, new, strict=False):
        if left.name != right.name:
            raise _moved(left, right, old, new)
        _check_node(left, right)
    if len(old) != len(new):
        longer, change = (new, "added") if len(new) > len(old) else (old, "removed")
        extra = longer[min(len(old), len(new))]
        raise _changed(extra, f"partition() {change} a node", f"{change} {_show(extra)}", "the same nodes")


def _moved(left: fx.Node, right: fx.Node, old: Sequence[fx.Node], new: Sequence[fx.Node]) -> ContractError:
    """The error for two nodes of different names at the same place."""
    gone = all(n.name != left.name for n in new)
    arrived = all(n.name != right.name for n in old)
    if gone and arrived:
        what = "renamed" if _target(left) == _target(right) else "replaced"
        return _changed(left, f"partition() {what} a node", _show(right), _show(left))
    if gone:
        return _changed(left, "partition() removed a node", "no such node", _show(left))
    if arrived:
        return _changed(right, "partition() added a node", _show(right), f"{left.name} in its place")
    return _changed(right, "partition() reordered nodes", f"{right.name} before {left.name}", "the same order")


def _check_node(left: fx.Node, right: fx.Node) -> None:
    if left.op != right.op or _target(left) != _target(right):
        raise _changed(left, "partition() changed the target", _show(right), _show(left))
    if not same_argument(left.args, right.args):
        raise _changed(left, "partition() changed the arguments", str(right.args), str(left.args))
    if not same_argument(left.kwargs, right.kwargs):
        raise _changed(left, "partition() changed the keyword arguments", str(right.kwargs), str(left.kwargs))
    if not same_value(left.meta.get("val"), right.meta.get("val")):
        raise _changed(
            left, "partition() changed meta['val']", describe(right.meta.get("val")), describe(left.meta.get("val"))
        )


def _check_signature(before: ExportedProgram, after: ExportedProgram) -> None:
    pairs = (
        (before.graph_signature.input_specs, after.graph_signature.input_specs),
        (before.graph_signature.output_specs, after.graph_signature.output_specs),
    )
    for old, new in pairs:
        if list(old) != list(new):
            differing = next((pair for pair in zip(old, new, strict=False) if pair[0] != pair[1]), (old, new))
            raise ContractError(
                "partition() changed the signature",
                str(differing[1]),
                str(differing[0]),
                getattr(getattr(differing[0], "arg", None), "name", "graph signature"),
            )
    missing = sorted(set(before.state_dict) ^ set(after.state_dict))
    if missing:
        raise ContractError("partition() added or removed weights", missing[0], "the same state_dict", missing[0])


def same_argument(left: Any, right: Any) -> bool:
    """Whether two fx arguments are equal: nodes by name, constants by type and value."""
    if left is right:
        return not isinstance(left, fx.Node) or left.name == right.name
    if isinstance(left, fx.Node):
        return isinstance(right, fx.Node) and left.name == right.name
    if isinstance(left, (list, tuple)):
        return (
            isinstance(right, (list, tuple))
            and isinstance(left, list) == isinstance(right, list)
            and len(left) == len(right)
            and all(same_argument(a, b) for a, b in zip(left, right, strict=True))
        )
    if isinstance(left, dict):
        return (
            isinstance(right, dict)
            and list(left) == list(right)
            and all(same_argument(left[k], right[k]) for k in left)
        )
    if isinstance(left, slice):
        return isinstance(right, slice) and same_argument(
            (left.start, left.stop, left.step), (right.start, right.stop, right.step)
        )
    # repr tells 0.0 from -0.0 and finds two NaNs alike.
    return type(left) is type(right) and (repr(left) == repr(right) if isinstance(left, float) else bool(left == right))


def same_value(left: Any, right: Any) -> bool:
    """Whether two nodes' `meta["val"]` have the same structure, shapes and types."""
    if left is right:
        return True
    if isinstance(left, (list, tuple)) and isinstance(right, (list, tuple)):
        return len(left) == len(right) and all(same_value(a, b) for a, b in zip(left, right, strict=True))
    if isinstance(left, torch.Tensor) and isinstance(right, torch.Tensor):
        return left.dtype == right.dtype and list(left.shape) == list(right.shape)
    return type(left) is type(right)


def _changed(node: fx.Node, what: str, found: str, expected: str) -> ContractError:
    return ContractError(what, found, expected, node.name)


def _target(node: fx.Node) -> Any:
    """What to compare: placeholders and the output by kind, functions by identity, names by name."""
    return node.op if node.op in ("placeholder", "output") else node.target


def _show(node: fx.Node) -> str:
    return node.name if node.op in ("placeholder", "output") else f"{target_name(node.target)} as {node.name}"
