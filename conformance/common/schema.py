"""Checks that a table's data fits its schema; each failure is one TableError that says where."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping
from typing import Any

from npu_assay.conformance.common.errors import nearest

DOCUMENT = "document"
SOURCES = (DOCUMENT, "decision", "source", "vela", "onnx")
"""Where the constraints, rows and precisions of the suite's own tables come from, beside versions.

A table may have others.
"""
ALIKE = 0.8  # of a source and a known one, as difflib counts it: then it is that one, misspelt


class TableError(ValueError):
    """A support table that cannot be used; the message names file, operator and key."""


def check_operator(name: str, where: str) -> None:
    if len([part for part in name.split(".") if part.strip()]) < 3:
        raise TableError(f"{where}: an operator is named namespace.operator.overload, e.g. aten.add.Tensor")


def check_source(source: str, where: str) -> None:
    """A source may be anything but a known one misspelt."""
    if source not in SOURCES and (close := difflib.get_close_matches(source, SOURCES, n=1, cutoff=ALIKE)):
        raise TableError(f"{where} {source!r}, did you mean {close[0]!r}?")


def check_keys(data: Mapping[str, Any], known: Mapping[str, type], required: set[str], where: str) -> None:
    for key, value in data.items():
        check_known(key, known, where, "key")
        check_type(value, known[key], f"{where}: {key}")
    for key in known:
        if key in required and key not in data:
            raise TableError(f"{where}: key {key!r} is missing")


def check_type(value: Any, kind: type, where: str) -> None:
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise TableError(f"{where}: expected {kind.__name__}, found {value!r} ({type(value).__name__})")


def check_known(name: str, known: Collection[str], where: str, what: str) -> None:
    if name not in known:
        raise TableError(f"{where}: unknown {what} {name!r}{nearest(name, known)}")


def check_text(text: str, where: str) -> None:
    if not text.strip() or not text.isprintable():
        raise TableError(f"{where}: expected a name, found {text!r}")
