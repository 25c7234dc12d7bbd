"""Single values in the JSON of `.pt2` files: each function returns what torch may have, or raises UsageError."""

from __future__ import annotations

import ast
import json
import math
import re
from collections.abc import Callable
from typing import Any

from torch._export.serde.serialize import _SERIALIZE_TO_TORCH_DTYPE

from npu_assay.conformance.common.errors import UsageError
from npu_assay.conformance.explain.archives import names

Reader = Callable[[Any], Any]
BITS = 63  # of whole numbers
NOT_FINITE = ("Infinity", "-Infinity", "NaN")
"""How torch writes these numbers."""
KEPT = ("stack_trace", "nn_module_stack", "torch_fn")
"""The texts about a node that torch parses and nobody evaluates."""
FUNCTION = re.compile(
    r"(?!torch|_operator|math|#)[\w.<>\[\]]*|_operator\.\w+|math\.\w+"
    r"|torch(\.nn(\.modules(\.\w+)?|\.functional)?|\.ops\.(aten|higher_order)(\.\w+)?|\._C\._nn|\.special|\.fft|\.linalg)?"
    r"\.\w+",
    re.ASCII,
)
"""Where a node came from: torch looks such a name up below its own module."""
GUARDS = frozenset(
    (
        *("size", "stride", "storage_offset", "dim", "len", "min", "max", "abs", "int", "float", "bool", "round"),
        *("floor", "ceil", "trunc", "sqrt", "sym_float", "sym_int", "sym_max", "sym_min", "Mod", "Max", "Min"),
        *("FloorDiv", "PythonMod", "CleanDiv", "CeilDiv", "Eq", "Ne", "isnan"),
    )
)
"""What torch calls in the comparisons by which it checks inputs."""


def loaded(text: str | bytes) -> Any:
    """JSON without numbers that JSON has not. Raises UsageError."""
    try:
        return json.loads(text, parse_constant=_no_number)
    except RecursionError as error:
        raise UsageError("found JSON that is nested too deeply, expected that of torch.export.save") from error
    except UsageError:
        raise
    except ValueError as error:
        raise UsageError(f"not a program that torch can read: found no JSON: {str(error)[:200]}") from error


def _no_number(text: str) -> Any:
    raise UsageError(f"found {text}, expected a number of JSON")


# ------------------------------------------------------------------------------------ plain values


def unlike(data: Any, expected: str) -> UsageError:
    """The error that says what was found."""
    return UsageError(f"found {repr(data)[:80]}, expected {expected}")


def whole(data: Any) -> int:
    """A whole number of 64 bits."""
    if type(data) is not int or not -(2**BITS) <= data < 2**BITS:
        raise unlike(data, "a whole number of 64 bits")
    return data


def real(data: Any) -> float | str:
    """A number, or how torch writes one that is not finite."""
    if data in NOT_FINITE and isinstance(data, str):
        return data
    if type(data) not in (int, float) or not math.isfinite(float(whole(data) if type(data) is int else data)):
        raise unlike(data, "a number")
    return float(data)


def truth(data: Any) -> bool:
    """True or false, not 1 or 0."""
    if not isinstance(data, bool):
        raise unlike(data, "true or false")
    return data


def text(data: Any) -> str:
    """Any text that can be written."""
    if not isinstance(data, str) or (not data.isascii() and any("\ud800" <= each <= "\udfff" for each in data)):
        raise unlike(data, "a text of Unicode")
    return data


def just(*allowed: Any) -> Reader:
    """Reads these values alone."""

    def read(data: Any) -> Any:
        if data not in allowed or type(data) is not type(allowed[0]):
            raise unlike(data, " or ".join(map(repr, allowed)))
        return data

    return read


def device(data: Any) -> str:
    """The processor: a program of another device does not run here."""
    if data != "cpu":
        raise unlike(data, "'cpu': export the model there, or move it with torch.export.passes.move_to_device_pass")
    return "cpu"


def dtype(data: Any) -> int:
    """The number of a dtype that torch has."""
    if whole(data) not in _SERIALIZE_TO_TORCH_DTYPE:
        raise unlike(data, "a dtype")
    return int(data)


def name_or_none(data: Any) -> str | None:
    """A name of Python, or none."""
    return None if data is None else names.identifier(data) if data else ""


def listed(data: Any) -> list[Any]:
    """A list of anything."""
    if not isinstance(data, list):
        raise unlike(data, "a list")
    return data


# ------------------------------------------------------------------------------------ what torch runs


def no_pickle(data: Any) -> bool:
    """False."""
    if data is not False:
        raise UsageError("found a pickled tensor or object, which is not read: export it as a buffer")
    return False


def no_guards(data: Any) -> list[str]:
    """No guards: torch runs them as Python. They only check inputs, and are left out where they do no more."""
    for each in data if isinstance(data, list) else (data,):
        if not isinstance(each, str) or not _is_guard(each):
            raise UsageError(f"found the code {str(each)[:60]!r}, expected comparisons of the sizes of inputs")
    return []


def _is_guard(code: str) -> bool:
    try:
        parts = list(ast.walk(ast.parse(code[: names.LONGEST], mode="eval")))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    called = [each.func for each in parts if isinstance(each, ast.Call)]
    return all((each.attr if isinstance(each, ast.Attribute) else getattr(each, "id", "")) in GUARDS for each in called)


def metadata(data: Any) -> dict[str, str]:
    """What is known of a node: where it came from, and marks of quantizers."""
    if not isinstance(data, dict):
        raise unlike(data, "names with texts")
    kept = {name: text(data[name]) for name in KEPT if name in data}
    sources = data.get("source_fn_stack")
    if isinstance(sources, str) and all(map(_is_source, sources.split(";"))):
        kept["source_fn_stack"] = sources
    return {**kept, **custom(data)}


def _is_source(text: str) -> bool:
    return text.count(",") == 1 and FUNCTION.fullmatch(text.partition(",")[2]) is not None


def custom(data: Any) -> dict[str, str]:
    """Marks of quantizers, which are JSON in a text."""
    if not isinstance(data, dict) or not data.get("custom"):
        return {}
    marks = loaded(text(data["custom"]))
    if not isinstance(marks, dict):
        raise unlike(marks, "marks by name")
    return {"custom": json.dumps(marks)}
