"""Differences between the result of a case that was run again and the recorded one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from npu_assay.conformance.record.results import CaseResult, Failure, Reason, to_line

SHOWN = 3  # differing parts of a record that are named


def difference(found: CaseResult, stated: CaseResult) -> str:
    """How a result differs from the recorded one; "" if both are the same bytes."""
    if to_line(found) == to_line(stated):
        return ""
    parts = [part for name in vars(stated) for part in _part(name, getattr(found, name), getattr(stated, name))]
    return _shortened(parts or ["keys, order or spacing of the line differ"])


def verdict_difference(found: CaseResult, stated: CaseResult) -> str:
    """How a result with other random numbers contradicts the recorded one; "" if it does not.

    The tags must be the same, and every check that fails must fail in the record, too. A check that fails in the record
    may pass here: the failure may need certain numbers.
    """
    parts = [
        part for name in ("verdict", "partitions") for part in _part(name, getattr(found, name), vars(stated)[name])
    ]
    parts += _part("reasons", _codes(found), _codes(stated))
    known = {failure.check for failure in stated.failures}
    parts += [
        f"{failure.check}: {failure.message}, the record says that it {'fails in other checks' if known else 'passes'}"
        for failure in found.failures
        if failure.check not in known
    ]
    return _shortened(parts)


def _codes(result: CaseResult) -> list[str] | None:
    return None if result.reasons is None else [reason.code for reason in result.reasons]


def _part(name: str, found: object, stated: object) -> Iterator[str]:
    """The differences in one part of a record, key by key."""
    if found == stated:
        return
    if isinstance(found, Mapping) and isinstance(stated, Mapping):
        for key in sorted(found.keys() | stated.keys()):
            yield from _part(f"{name}.{key}", found.get(key), stated.get(key))
    else:
        yield f"{name}: found {_short(found):.200}, the record says {_short(stated):.200}"


def _short(value: object) -> str:
    if isinstance(value, tuple | list):
        return ", ".join(map(_short, value)) or "none"
    if isinstance(value, Failure):
        return f"{value.check}: {value.message:.100}"
    if isinstance(value, Reason):
        return value.code
    return "none" if value is None else str(value)[:80]


def _shortened(parts: Sequence[str]) -> str:
    rest = f"; and {len(parts) - SHOWN} more" if len(parts) > SHOWN else ""
    return "; ".join(parts[:SHOWN]) + rest
