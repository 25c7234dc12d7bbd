"""Where an operator comes from: the user's module, and the line of the user's program."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import zip_longest
from pathlib import Path

from torch import fx
from torch.fx.traceback import NodeSource

from npu_assay.conformance.explain.summary import MODEL
from npu_assay.partitioners.exir.ops import target_name

FRAME = re.compile(r'^\s*File "(?P<file>.+)", line (?P<line>\d+), in .+$')
OWN = ("/torch/", "/torchao/", "/npu_assay/", "<eval_with_key>", "<string>")
"""Parts of the paths of files that no user wrote."""
FROM, MARK = "from_node", "npu_assay.explain"
"""Where torch keeps what a node was made of; and how a name is marked there."""
WRAPPERS = ("torch.export.", "torch.fx.")
"""Classes of modules that export itself puts around the user's."""


def module_of(node: fx.Node) -> tuple[str, str]:
    """The path of the innermost module that computed it, and the name of its class; "" for what is not known."""
    path, kind = next(reversed(calls_of(node)), ("", ""))
    return plain_path(path), kind.rpartition(".")[2]


def calls_of(node: fx.Node) -> list[tuple[str, str]]:
    """The calls of modules that it was computed in, the outermost first: path and call, and the whole class name."""
    found = list[tuple[str, str]]()
    for key, (path, kind) in (node.meta.get("nn_module_stack") or {}).items():
        name = kind if isinstance(kind, str) else f"{kind.__module__}.{kind.__qualname__}"
        if not name.startswith(WRAPPERS):
            call = re.search(r"@\d+$", str(key))
            found.append((f"{path}{call[0] if call else ''}", name))
    return found


def place_of(node: fx.Node) -> str:
    """The operator with its module and line, for a sentence: `aten.mul.Tensor of layers.0 (Block), model.py:12`."""
    (module, kind), (source, _) = module_of(node), source_of(node)
    return f"{target_name(node.target)} of {module or MODEL} ({kind}), {source}"


def plain_path(path: str) -> str:
    """`L['self'].layers.0` as `layers.0`; `@1` marks a second call."""
    return re.sub(r"^L\['self'\]\.?|@\d+$", "", path).replace("_modules.", "")


@contextmanager
def marked(graph: fx.Graph) -> Iterator[None]:
    """Within, what is made of the graph's nodes carries their names, see `origin_of`."""
    before = {node: node.meta for node in graph.nodes}
    for node in graph.nodes:
        node.meta = {**node.meta, FROM: [NodeSource(node, MARK)]}
    try:
        yield
    finally:
        for node, meta in before.items():
            node.meta = meta


def origin_of(node: fx.Node) -> str | None:
    """The name of the node that this one was made of, in the graph that was `marked`."""
    found = _marked_source(node)
    return None if found is None else str(found.name)


def operator_of(node: fx.Node) -> str:
    """The operator of that node, "" for what is not known."""
    found = _marked_source(node)
    return "" if found is None else str(found.target)


def _marked_source(node: fx.Node) -> NodeSource | None:
    behind = node.meta.get(FROM)
    while behind:
        if behind[-1].pass_name == MARK:
            source: NodeSource = behind[-1]
            return source
        behind = behind[-1].from_node
    return None


def source_of(node: fx.Node) -> tuple[str, str]:
    """The innermost line of the user's program, as "file.py:12" and its text; torch's own where there is no other."""
    frames = frames_of(str(node.meta.get("stack_trace") or ""))
    users = [frame for frame in frames if not any(part in frame[0] for part in OWN)]
    chosen = (users or frames)[-1:]
    return next(((f"{Path(file).name}:{line}", text) for file, line, text in chosen), ("", ""))


def frames_of(trace: str) -> list[tuple[str, int, str]]:
    """File, line and text of every frame of a stack trace, outermost first."""
    lines, found = trace.splitlines(), list[tuple[str, int, str]]()
    for line, text in zip_longest(lines, lines[1:], fillvalue=""):
        match = FRAME.match(line)
        if match is not None:
            found.append((match["file"], int(match["line"]), "" if FRAME.match(text) else text.strip()))
    return found
