"""A row's plain application, and what stands before it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from npu_assay.conformance.cases.limits import Limits
from npu_assay.conformance.cases.make import Call, Prefix, bare, call
from npu_assay.conformance.cases.permitted import Shape, image

Placed = tuple[Call, Prefix]
FULL_IMAGE = image()


def on_image(op: str, *rest: Any, prefix: Prefix = bare, **kwargs: Any) -> Callable[[Limits], Placed]:
    """A plain image, whatever the limits."""
    return lambda limits: (call(op, FULL_IMAGE, *rest, **kwargs), prefix)


def on_shape(op: str, shape: Shape, *rest: Any, prefix: Prefix = bare, **kwargs: Any) -> Callable[[Limits], Placed]:
    """A shape of its own, whatever the limits."""
    return lambda limits: (call(op, shape, *rest, **kwargs), prefix)
