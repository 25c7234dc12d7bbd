"""Where in the model's sources an instruction comes from."""

from __future__ import annotations

import re
from typing import Any

from torch import fx

from npu_assay.partitioners.exir.pte.model import Frame

STACK_TRACE = "stack_trace"
"""The key in `node.meta` under which torch.export writes the Python traceback of an operator, as text."""

_FRAME = re.compile(r'File "(?P<file>[^"\n]*)", line (?P<line>\d+), in (?P<name>[^\n]*)(?:\n(?P<code>[^\n]*))?')


def frames(node: fx.Node | None, delegate: Any = None) -> tuple[Frame, ...]:
    """The frames of a node, the innermost last; those of all operators in a delegate, each once."""
    nodes = [node] if delegate is None else list(delegate.original_module.graph.nodes)
    texts = dict.fromkeys(str(n.meta.get(STACK_TRACE) or "") for n in nodes if n is not None)
    return tuple(dict.fromkeys(frame for text in texts for frame in _frames(text)))


def _frames(text: str) -> list[Frame]:
    return [
        Frame(found["file"], int(found["line"]), found["name"].strip(), (found["code"] or "").strip())
        for found in _FRAME.finditer(text)
    ]
