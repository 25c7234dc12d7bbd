"""What users call an operator: by edge's name, by that of the operator that they wrote, by their module or its path."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from difflib import get_close_matches

from torch import fx

from npu_assay.conformance.common.errors import UsageError
from npu_assay.conformance.explain.origins import origin_of
from npu_assay.conformance.explain.record import Operator
from npu_assay.conformance.explain.summary import short
from npu_assay.partitioners.exir.ops import target_name

PREFIXES = ("torch.ops.", "torch.", "nn.functional.", "functional.", "F.", "nn.")
CLOSEST = 3


def written_as(graph: fx.Graph, node: fx.Node) -> str:
    """The operator of the exported graph that a node of a lowered program was made of; "" if that is not known."""
    name = origin_of(node)
    source = next((each for each in graph.nodes if each.name == name), None)
    return target_name(source.target) if source is not None and source.op == "call_function" else ""


def is_meant(name: str, operator: Operator, written: str) -> bool:
    """Whether a user's word means this operator, or the module that it is in."""
    plain = _plain(name)
    return plain in set(_names(operator, written)) or f"{operator.module}.".startswith(f"{name}.")


def _plain(name: str) -> str:
    """Without the names of torch's modules."""
    for prefix in PREFIXES:
        name = name.removeprefix(prefix)
    return name


def _names(operator: Operator, written: str) -> Iterator[str]:
    for whole in filter(None, (operator.operator, written)):
        name = short(whole)
        yield from (whole, whole.rpartition(".")[0], name, name.removeprefix("_"), name.removesuffix("_copy"))
    yield operator.kind


def unknown(name: str, operators: Sequence[tuple[Operator, str]]) -> UsageError:
    """The error for a word that means none of these, with what comes near."""
    plain = [short(written or one.operator).removeprefix("_") for one, written in operators]
    near = get_close_matches(name, _words(operators), CLOSEST)
    text = f" (near it: {', '.join(near)})" if near else ""
    known = ", ".join(sorted(set(plain)))
    return UsageError(f"--op: found {name!r}{text}, expected an operator or a module of the model: {known}")


def _words(operators: Sequence[tuple[Operator, str]]) -> Collection[str]:
    """All that can be said, the shortest form of each operator only."""
    words = {word for one, written in operators for word in _names(one, written) if "." not in word}
    return sorted(words | {one.module for one, _ in operators if one.module})
