"""`to_backend`, which compiles programs, or parts of them, for a backend; and the delegates that it makes."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import singledispatch
from typing import Any

from torch import fx
from torch.export import ExportedProgram

from npu_assay.partitioners.exir.errors import ExirError
from npu_assay.partitioners.exir.graph_lowering import lower_graph_module
from npu_assay.partitioners.exir.lowered import LoweredBackendModule
from npu_assay.partitioners.exir.lowering import lower_parts, lower_whole

__all__ = ["LoweredBackendModule", "to_backend"]

_FIRST = ("args", "backend_id", "edge_program", "graph_module")
"""The names of the first argument in the three forms."""

_FORMS = "(backend_id: str, edge_program, compile_specs), (edge_program, partitioner) or (graph_module, partitioner)"


def to_backend(*args: Any, **keywords: Any) -> Any:
    """Lower a program to a backend. Three forms, by the type of the first argument:

    `to_backend(backend_id, edge_program, compile_specs) -> LoweredBackendModule` compiles all of it (the program may
    also be called `edge_graph_module`);
    `to_backend(edge_program, partitioner) -> EdgeProgram` compiles what the partitioner tags and
    returns a new program that calls the delegates;
    `to_backend(graph_module, partitioner) -> GraphModule` does the same with the graph module of an edge program.

    The arguments are not changed. A partitioner is an instance, or a class that can be called without arguments. All
    forms take `details`, a mapping from backend id to compiler class, for backends that are not found by their class
    name. `to_backend.register` adds a form. Raises ExirError for anything else.
    """
    first, rest = _first(args, dict(keywords))
    form: Callable[..., Any] = _by_type.dispatch(type(first))
    try:
        bound = inspect.signature(form).bind(first, *args[1:], **rest)
    except TypeError as error:
        raise _wrong(f"{type(first).__name__} first, and {error}", "arguments") from error
    return form(*bound.args, **bound.kwargs)


def _first(args: tuple[Any, ...], keywords: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The first argument, which decides the form, and the other keywords under their names in the forms."""
    if "edge_graph_module" in keywords and "edge_program" not in keywords:
        keywords["edge_program"] = keywords.pop("edge_graph_module")
    if args:
        return args[0], keywords
    for name in _FIRST:
        if name in keywords:
            return keywords.pop(name), keywords
    raise _wrong("none")


def _wrong(found: str, where: str = "first argument") -> ExirError:
    return ExirError("to_backend cannot lower this", found, _FORMS, where)


@singledispatch
def _by_type(args: Any, *rest: Any, **keywords: Any) -> Any:
    raise _wrong(type(args).__name__)


_by_type.register(str, lower_whole)
_by_type.register(ExportedProgram, lower_parts)
_by_type.register(fx.GraphModule, lower_graph_module)
to_backend.register = _by_type.register  # type: ignore[attr-defined]  # a function may have attributes
