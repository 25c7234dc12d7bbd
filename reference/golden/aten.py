"""ATen operators by name: as plain float64 functions, and their arguments by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload

from npu_assay.reference.golden.bounded import GoldenError

CLONE = "dim_order_ops._clone_dim_order.default"
COPY = "dim_order_ops._to_dim_order_copy.default"
_COPY_OPTIONS = ("dtype", "layout", "device", "pin_memory", "non_blocking", "dim_order")


def canonical(op: str) -> str:
    """The operator's own name for a table's: vendors print that of another namespace after `aten.`."""
    return op.removeprefix("aten.") if op.count(".") > OWN_DOTS else op


OWN_DOTS = 2  # namespace.operator.overload


def _same_numbers(self: Tensor, dtype: Any = None, dim_order: Sequence[int] | None = None, **_: Any) -> Tensor:
    """A copy in another dim order or dtype holds the same numbers at the same indices.

    Integers of a narrower type lose their high bits; a boolean is whether an integer is not 0. Raises GoldenError for
    an order of other dimensions.
    """
    if dim_order is not None and sorted(dim_order) != [*range(self.dim())]:
        raise GoldenError(f"dim_order: found {list(dim_order)}, expected an order of {self.dim()} dimensions")
    wanted = getattr(torch, dtype) if isinstance(dtype, str) else dtype
    if wanted is None or wanted.is_floating_point or self.is_floating_point():
        return self
    return self.to(wanted)


@lru_cache(maxsize=4096)
def aten(op: str) -> Callable[..., Any]:
    """The function for an operator's canonical name.

    Raises GoldenError when torch has no such operator.
    """
    if op in (CLONE, COPY):
        return _same_numbers
    try:
        namespace, name, overload = op.split(".")
        found: Callable[..., Any] = getattr(getattr(getattr(torch.ops, namespace), name), overload)
    except (AttributeError, ValueError) as error:
        raise GoldenError(f"operator: found {op!r}, expected namespace.name.overload of a torch operator") from error
    return found


@lru_cache(maxsize=4096)
def parameters(op: str) -> tuple[tuple[str, bool, Any], ...]:
    """(name, keyword only, default) of each argument in the operator's schema."""
    function = aten(op)
    if not isinstance(function, OpOverload):
        options = _COPY_OPTIONS if op == COPY else ("dim_order", "non_blocking")
        return (("self", False, None), *((name, True, None) for name in options))
    return tuple((a.name, bool(a.kwarg_only), a.default_value) for a in function._schema.arguments)


@lru_cache(maxsize=4096)
def optional_parameters(op: str) -> tuple[str, ...]:
    """The arguments that may be None, in the schema's order."""
    function = aten(op)
    if not isinstance(function, OpOverload):
        return ()
    return tuple(a.name for a in function._schema.arguments if isinstance(a.type, torch.OptionalType))


def bound(op: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """An operator's arguments by their schema names, defaults filled in.

    Raises GoldenError for arguments that the schema does not have.
    """
    known = parameters(canonical(op))
    names = [name for name, keyword_only, _ in known if not keyword_only]
    unknown = sorted(kwargs.keys() - {name for name, _, _ in known})
    if unknown or len(args) > len(names):
        raise GoldenError(f"{op}: found arguments {unknown or args[len(names) :]}, expected {names}")
    return {name: default for name, _, default in known} | dict(zip(names, args, strict=False)) | dict(kwargs)
