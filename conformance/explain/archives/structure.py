"""The JSON of `.pt2` files: what torch reads of it, in torch's own structure, with each text as a rule allows it.

A text without a rule has to be a name of Python, and a record without a name here is refused: what a later torch adds
is not read until somebody has looked at it.
"""

from __future__ import annotations

import ast
import dataclasses
import enum
import json
import math
import re
import types
import typing
from collections.abc import Callable, Mapping
from functools import cache
from types import MappingProxyType
from typing import Any

from torch._export.serde import schema
from torch._export.serde.serialize import _SERIALIZE_TO_TORCH_DTYPE
from torch._export.serde.union import _Union

from npu_assay.conformance.common.errors import UsageError
from npu_assay.conformance.explain.archives import names
from npu_assay.conformance.explain.archives.nesting import nesting
from npu_assay.conformance.explain.archives.operators import check_target
from npu_assay.conformance.explain.archives.sizes import SYMBOL, arithmetic

Reader = Callable[[Any], Any]
READ = frozenset(
    (
        *("ExportedProgram", "SchemaVersion", "RangeConstraint", "PayloadConfig", "PayloadMeta"),
        *("GraphModule", "Graph", "Node", "NamedArgument", "GraphArgument", "ModuleCallEntry", "ModuleCallSignature"),
        *("TensorMeta", "Device", "SymExpr", "SymExprHint", "SymInt", "SymFloat", "SymBool"),
        *("Argument", "TensorArgument", "OptionalTensorArgument", "ComplexValue", "ConstantValue"),
        *("SymIntArgument", "SymFloatArgument", "SymBoolArgument"),
        *("GraphSignature", "InputSpec", "UserInputSpec", "InputToConstantInputSpec", "InputToParameterSpec"),
        *("InputToBufferSpec", "InputToTensorConstantSpec", "OutputSpec", "UserOutputSpec", "BufferMutationSpec"),
        *("ParameterMutationSpec", "UserInputMutationSpec", "LossOutputSpec", "GradientToParameterSpec"),
        "GradientToUserInputSpec",
    )
)
"""The records of torch's structure that are read: no objects of other classes, which torch would unpickle."""
BITS = 63  # of whole numbers
DIALECTS = ("TRAINING", "ATEN")
NOT_FINITE = ("Infinity", "-Infinity", "NaN")
"""How torch writes these numbers."""
KEPT = ("stack_trace", "nn_module_stack", "torch_fn")
"""Of what torch knows of a node: texts that it takes apart, and that nobody evaluates."""
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


def read(kind: type, data: Any) -> Any:
    """The JSON of one of torch's records, without all that torch does not read. Raises UsageError."""
    return _reader(kind)(data)


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


# ------------------------------------------------------------------------------------ by type


@cache
def _reader(kind: Any) -> Reader:
    """How a value of this type of torch's structure is read."""
    if isinstance(kind, str | typing.ForwardRef):
        return _reader(getattr(schema, kind if isinstance(kind, str) else kind.__forward_arg__))
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Annotated:
        return _reader(arguments[0])
    if origin in (typing.Union, types.UnionType):
        return _optional(_reader(next(each for each in arguments if each is not type(None))))
    if origin is list:
        return _listed(arguments[0])
    if origin is dict:
        return _mapped(arguments[1])
    return _single(kind)


def _single(kind: type) -> Reader:
    if kind in _PLAIN:
        return _PLAIN[kind]
    if issubclass(kind, enum.IntEnum):
        return _numbered(kind)
    if kind.__name__ not in READ:
        return _refused(kind.__name__)
    return _one_of(kind) if issubclass(kind, _Union) else _record(kind)


def _refused(name: str) -> Reader:
    def read(_: Any) -> Any:
        raise UsageError(f"found an object ({name}), expected tensors, numbers and texts: no others are read")

    return read


def _optional(inside: Reader) -> Reader:
    return lambda data: None if data is None else inside(data)


def _listed(kind: Any) -> Reader:
    def read(data: Any) -> Any:
        if not isinstance(data, list):
            raise _unlike(data, "a list")
        inside = _reader(kind)
        return [inside(each) for each in data]

    return read


def _mapped(kind: Any) -> Reader:
    def read(data: Any) -> Any:
        if not isinstance(data, dict):
            raise _unlike(data, "names with values")
        inside = _reader(kind)
        return {names.identifier(name): inside(each) for name, each in data.items()}

    return read


def _numbered(kind: type[enum.IntEnum]) -> Reader:
    allowed = frozenset(map(int, kind))

    def read(data: Any) -> int:
        if _whole(data) not in allowed:
            raise _unlike(data, f"a {kind.__name__}")
        return int(data)

    return read


def _fields(kind: Any) -> Mapping[str, Reader]:
    hints = typing.get_type_hints(kind, globalns=vars(schema), include_extras=True)
    return {
        each.name: _placed(kind.__name__, each.name, RULES.get((kind.__name__, each.name)) or _later(hints[each.name]))
        for each in dataclasses.fields(kind)
    }


def _later(kind: Any) -> Reader:
    return lambda data: _reader(kind)(data)  # records hold each other


def _record(kind: Any) -> Reader:
    fields = _fields(kind)

    def read(data: Any) -> dict[str, Any]:
        if not isinstance(data, dict):
            raise _unlike(data, f"a {kind.__name__}")
        return {name: inside(data[name]) for name, inside in fields.items() if name in data}

    return read


def _one_of(kind: Any) -> Reader:
    fields = _fields(kind)

    def read(data: Any) -> dict[str, Any]:
        if not isinstance(data, dict) or len(data) != 1 or not data.keys() <= fields.keys():
            raise _unlike(data, f"one value of {kind.__name__}")
        ((name, value),) = data.items()
        return {name: fields[name](value)}

    return read


class _Placed(UsageError):
    """An error that says where."""


def _placed(kind: str, name: str, inside: Reader) -> Reader:
    def read(data: Any) -> Any:
        try:
            return inside(data)
        except _Placed:
            raise
        except UsageError as error:
            raise _Placed(f"{kind}.{name}: {error}") from error

    return read


# ------------------------------------------------------------------------------------ single values


def _unlike(data: Any, expected: str) -> UsageError:
    return UsageError(f"found {repr(data)[:80]}, expected {expected}")


def _whole(data: Any) -> int:
    if type(data) is not int or not -(2**BITS) <= data < 2**BITS:
        raise _unlike(data, "a whole number of 64 bits")
    return data


def _real(data: Any) -> float | str:
    if data in NOT_FINITE and isinstance(data, str):
        return data
    if type(data) not in (int, float) or not math.isfinite(float(_whole(data) if type(data) is int else data)):
        raise _unlike(data, "a number")
    return float(data)


def _truth(data: Any) -> bool:
    if not isinstance(data, bool):
        raise _unlike(data, "true or false")
    return data


def _text(data: Any) -> str:
    """Any text that can be written."""
    if not isinstance(data, str) or (not data.isascii() and any("\ud800" <= each <= "\udfff" for each in data)):
        raise _unlike(data, "a text of Unicode")
    return data


_PLAIN: Mapping[Any, Reader] = {int: _whole, float: _real, bool: _truth, str: names.identifier}


def _just(*allowed: Any) -> Reader:
    def read(data: Any) -> Any:
        if data not in allowed or isinstance(data, bool) is not isinstance(allowed[0], bool):
            raise _unlike(data, " or ".join(map(repr, allowed)))
        return data

    return read


def _device(data: Any) -> str:
    if data != "cpu":
        raise _unlike(data, "'cpu': export the model there, or move it with torch.export.passes.move_to_device_pass")
    return "cpu"


def _dtype(data: Any) -> int:
    if _whole(data) not in _SERIALIZE_TO_TORCH_DTYPE:
        raise _unlike(data, "a dtype")
    return int(data)


def _name_or_none(data: Any) -> str | None:
    return None if data is None else names.identifier(data) if data else ""


def _ranges(data: Any) -> dict[str, Any]:
    """Symbols with their ranges. torch counts up to the number of a symbol."""
    for name in data if isinstance(data, dict) else ():
        if not isinstance(name, str) or not SYMBOL.fullmatch(name):
            raise _unlike(name, "a symbol, such as s77")
    return typing.cast("dict[str, Any]", _mapped(schema.RangeConstraint)(data))


def _no_pickle(data: Any) -> bool:
    if data is not False:
        raise UsageError("found a pickled tensor or object, which is not read: export it as a buffer")
    return False


def _no_guards(data: Any) -> list[str]:
    """No guards: torch runs them as Python. They only check inputs, and are left out where they do no more."""
    for each in data if isinstance(data, list) else (data,):
        if not isinstance(each, str) or not _is_guard(each):
            raise UsageError(f"found the code {str(each)[:60]!r}, expected comparisons of the sizes of inputs")
    return []


def _is_guard(text: str) -> bool:
    try:
        parts = list(ast.walk(ast.parse(text[: names.LONGEST], mode="eval")))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    called = [each.func for each in parts if isinstance(each, ast.Call)]
    return all((each.attr if isinstance(each, ast.Attribute) else getattr(each, "id", "")) in GUARDS for each in called)


def _metadata(data: Any) -> dict[str, str]:
    """What is known of a node: where it came from, and marks of quantizers."""
    if not isinstance(data, dict):
        raise _unlike(data, "names with texts")
    kept = {name: _text(data[name]) for name in KEPT if name in data}
    sources = data.get("source_fn_stack")
    if isinstance(sources, str) and all(map(_is_source, sources.split(";"))):
        kept["source_fn_stack"] = sources
    return {**kept, **_custom(data)}


def _is_source(text: str) -> bool:
    return text.count(",") == 1 and FUNCTION.fullmatch(text.partition(",")[2]) is not None


def _custom(data: Any) -> dict[str, str]:
    if not isinstance(data, dict) or not data.get("custom"):
        return {}
    marks = loaded(_text(data["custom"]))
    if not isinstance(marks, dict):
        raise _unlike(marks, "marks by name")
    return {"custom": json.dumps(marks)}


def _of_call(data: Any) -> dict[str, Any]:
    """An input of the program, whose text torch writes between quotes into Python."""
    found = typing.cast("dict[str, Any]", _reader(schema.Argument)(data))
    for text in (found[each] for each in ("as_string",) if each in found):
        names.plain(text)
    return found


def _inputs(data: Any) -> list[dict[str, Any]]:
    return [_of_call(each) for each in _listed(schema.Argument)(data)]


RULES: Mapping[tuple[str, str], Reader] = MappingProxyType(
    {
        ("ExportedProgram", "opset_version"): lambda data: _mapped(int)(data),
        ("ExportedProgram", "range_constraints"): _ranges,
        ("ExportedProgram", "verifiers"): lambda data: [_just(*DIALECTS)(each) for each in _listed_any(data)],
        ("ExportedProgram", "torch_version"): names.plain,
        ("ExportedProgram", "guards_code"): _no_guards,
        ("GraphModule", "metadata"): _custom,
        ("GraphModule", "treespec_namedtuple_fields"): lambda _: {},  # nesting has no classes
        ("Graph", "inputs"): _inputs,
        ("Graph", "custom_obj_values"): lambda data: _mapped(schema.CustomObjArgument)(data),
        ("UserInputSpec", "arg"): _of_call,
        ("Node", "target"): check_target,
        ("Node", "name"): _name_or_none,
        ("Node", "metadata"): _metadata,
        ("NamedArgument", "name"): _name_or_none,
        ("GraphArgument", "name"): names.member,
        ("Argument", "as_operator"): _refused("Python function"),
        ("Argument", "as_string"): _text,
        ("Argument", "as_strings"): lambda data: [_text(each) for each in _listed_any(data)],
        ("Argument", "as_layout"): _just(int(schema.Layout.Strided)),
        ("Argument", "as_scalar_type"): _dtype,
        ("TensorMeta", "dtype"): _dtype,
        ("TensorMeta", "layout"): _just(int(schema.Layout.Strided)),
        ("Device", "type"): _device,
        ("SymExpr", "expr_str"): lambda data: arithmetic(_text(data)),
        ("ConstantValue", "as_string"): names.plain,
        ("InputToConstantInputSpec", "name"): _name_or_none,
        ("InputToParameterSpec", "parameter_name"): names.path,
        ("InputToBufferSpec", "buffer_name"): names.path,
        ("InputToTensorConstantSpec", "tensor_constant_name"): names.path,
        ("BufferMutationSpec", "buffer_name"): names.path,
        ("ParameterMutationSpec", "parameter_name"): names.path,
        ("GradientToParameterSpec", "parameter_name"): names.path,
        ("ModuleCallEntry", "fqn"): names.path,
        ("ModuleCallSignature", "in_spec"): lambda data: nesting(_text(data), called=True),
        ("ModuleCallSignature", "out_spec"): lambda data: nesting(_text(data)),
        ("PayloadConfig", "config"): lambda data: {
            names.path(k): _reader(schema.PayloadMeta)(v) for k, v in data.items()
        },
        ("PayloadMeta", "path_name"): names.identifier,
        ("PayloadMeta", "use_pickle"): _no_pickle,
    }
)
"""By record and field: what is stricter or looser than its type."""


def _listed_any(data: Any) -> list[Any]:
    if not isinstance(data, list):
        raise _unlike(data, "a list")
    return data
