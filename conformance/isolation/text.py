"""Results as bytes, even if a backend put lone surrogates into their texts."""

from __future__ import annotations

from dataclasses import replace

from npu_assay.conformance.record.results import CaseResult, Failure, Reason, to_line


def encoded(result: CaseResult) -> bytes:
    """The line of a result in UTF-8; lone surrogates, which UTF-8 cannot encode, become escapes."""
    try:
        return to_line(result).encode()
    except UnicodeEncodeError:
        return to_line(_escaped(result)).encode()


def _escaped(result: CaseResult) -> CaseResult:
    reasons = result.reasons
    if reasons is not None:
        reasons = tuple(Reason(_text(each.code), _text(each.found), _text(each.sentence)) for each in reasons)
    failures = tuple(map(_escaped_failure, result.failures))
    return replace(result, reasons=reasons, failures=failures)


def _escaped_failure(failure: Failure) -> Failure:
    return Failure(failure.check, _text(failure.message), tuple(map(_text, failure.trace)))


def _text(text: str) -> str:
    return text.encode(errors="backslashreplace").decode()
