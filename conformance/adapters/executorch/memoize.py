"""Saves what ExecuTorch's passes work out over and over.

Torch remembers shapes and dtypes of results of its own operators only; those of `quantized_decomposed` are functions of
their arguments, too. It copies a node's whole history for each pass, though nobody changes a history. Some passes write
the whole graph for a debug log. The results stay the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import fx
from torch._library import utils
from torch.fx.traceback import NodeSource

_is_builtin = utils.is_builtin
_print_readable = fx.GraphModule.print_readable


def _is_function(operator: Any) -> bool:
    """In place of `is_builtin`, which is asked before a result is remembered."""
    return _is_builtin(operator) or operator.namespace == "quantized_decomposed"


def _shared(self: NodeSource, _: dict[int, Any]) -> NodeSource:
    """`__deepcopy__`: the same history."""
    return self


def _unread(self: fx.GraphModule, print_output: bool = True, *args: Any, **kwargs: Any) -> str:
    """In place of `print_readable`: no text for a debug log that is off."""
    return _print_readable(self, print_output, *args, **kwargs) if print_output else ""


@contextmanager
def lighter() -> Iterator[None]:
    """Passes that run in the body share histories and remembered results."""
    utils.is_builtin = _is_function  # type: ignore[assignment]
    NodeSource.__deepcopy__ = _shared  # type: ignore[attr-defined]
    fx.GraphModule.print_readable = _unread  # type: ignore[method-assign]
    try:
        yield
    finally:
        fx.GraphModule.print_readable = _print_readable  # type: ignore[method-assign]
        utils.is_builtin = _is_builtin
        del NodeSource.__deepcopy__  # type: ignore[attr-defined]
