"""The JSON of `.pt2` files: what torch reads of it, in torch's own structure, with each text as a rule allows it.

A text without a rule has to be a name of Python, and a record without a name here is refused: what a later torch adds
is not read until somebody has looked at it.
"""

from __future__ import annotations

import dataclasses
import enum
import types
import typing
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from torch._export.serde import schema
from torch._export.serde.union import _Union

from npu_assay.conformance.common.errors import UsageError
from npu_assay.conformance.common.memory import keep
from npu_assay.conformance.explain.archives import names, values
from npu_assay.conformance.explain.archives.nesting import nesting
from npu_assay.conformance.explain.archives.operators import check_target
from npu_assay.conformance.explain.archives.sizes import SYMBOL, arithmetic
from npu_assay.conformance.explain.archives.values import Reader

DIALECTS = ("TRAINING", "ATEN")
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


def read(kind: type, data: Any) -> Any:
    """The JSON of one of torch's records, without all that torch does not read. Raises UsageError."""
    return _reader(kind)(data)


# ------------------------------------------------------------------------------------ by type


@keep(1024)
def _reader(kind: Any) -> Reader:
    """How a value of this type of torch's structure is read."""
    if isinstance(kind, str | typing.ForwardRef):
        return _reader(getattr(schema, kind if isinstance(kind, str) else kind.__forward_arg__))
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Annotated:
        return _reader(arguments[0])
    if origin in (typing.Union, types.UnionType):
        inside = _reader(next(each for each in arguments if each is not type(None)))
        return lambda data: None if data is None else inside(data)
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


def _listed(kind: Any) -> Reader:
    def read(data: Any) -> Any:
        if not isinstance(data, list):
            raise values.unlike(data, "a list")
        inside = _reader(kind)
        return [inside(each) for each in data]

    return read


def _mapped(kind: Any) -> Reader:
    def read(data: Any) -> Any:
        if not isinstance(data, dict):
            raise values.unlike(data, "names with values")
        inside = _reader(kind)
        return {names.identifier(name): inside(each) for name, each in data.items()}

    return read


def _numbered(kind: type[enum.IntEnum]) -> Reader:
    allowed = frozenset(map(int, kind))

    def read(data: Any) -> int:
        if values.whole(data) not in allowed:
            raise values.unlike(data, f"a {kind.__name__}")
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
            raise values.unlike(data, f"a {kind.__name__}")
        return {name: inside(data[name]) for name, inside in fields.items() if name in data}

    return read


def _one_of(kind: Any) -> Reader:
    fields = _fields(kind)

    def read(data: Any) -> dict[str, Any]:
        if not isinstance(data, dict) or len(data) != 1 or not data.keys() <= fields.keys():
            raise values.unlike(data, f"one value of {kind.__name__}")
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


_PLAIN: Mapping[Any, Reader] = {int: values.whole, float: values.real, bool: values.truth, str: names.identifier}


def _ranges(data: Any) -> dict[str, Any]:
    """Symbols with their ranges. torch counts up to the number of a symbol."""
    for name in data if isinstance(data, dict) else ():
        if not isinstance(name, str) or not SYMBOL.fullmatch(name):
            raise values.unlike(name, "a symbol, such as s77")
    return typing.cast("dict[str, Any]", _mapped(schema.RangeConstraint)(data))


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
        ("ExportedProgram", "verifiers"): lambda data: [values.just(*DIALECTS)(each) for each in values.listed(data)],
        ("ExportedProgram", "torch_version"): names.plain,
        ("ExportedProgram", "guards_code"): values.no_guards,
        ("GraphModule", "metadata"): values.custom,
        ("GraphModule", "treespec_namedtuple_fields"): lambda _: {},  # nesting has no classes
        ("Graph", "inputs"): _inputs,
        ("Graph", "custom_obj_values"): lambda data: _mapped(schema.CustomObjArgument)(data),
        ("UserInputSpec", "arg"): _of_call,
        ("Node", "target"): check_target,
        ("Node", "name"): values.name_or_none,
        ("Node", "metadata"): values.metadata,
        ("NamedArgument", "name"): values.name_or_none,
        ("GraphArgument", "name"): names.member,
        ("Argument", "as_operator"): _refused("Python function"),
        ("Argument", "as_string"): values.text,
        ("Argument", "as_strings"): lambda data: [values.text(each) for each in values.listed(data)],
        ("Argument", "as_layout"): values.just(int(schema.Layout.Strided)),
        ("Argument", "as_scalar_type"): values.dtype,
        ("TensorMeta", "dtype"): values.dtype,
        ("TensorMeta", "layout"): values.just(int(schema.Layout.Strided)),
        ("Device", "type"): values.device,
        ("SymExpr", "expr_str"): lambda data: arithmetic(values.text(data)),
        ("ConstantValue", "as_string"): names.plain,
        ("InputToConstantInputSpec", "name"): values.name_or_none,
        ("InputToParameterSpec", "parameter_name"): names.path,
        ("InputToBufferSpec", "buffer_name"): names.path,
        ("InputToTensorConstantSpec", "tensor_constant_name"): names.path,
        ("BufferMutationSpec", "buffer_name"): names.path,
        ("ParameterMutationSpec", "parameter_name"): names.path,
        ("GradientToParameterSpec", "parameter_name"): names.path,
        ("ModuleCallEntry", "fqn"): names.path,
        ("ModuleCallSignature", "in_spec"): lambda data: nesting(values.text(data), called=True),
        ("ModuleCallSignature", "out_spec"): lambda data: nesting(values.text(data)),
        ("PayloadConfig", "config"): lambda data: {
            names.path(k): _reader(schema.PayloadMeta)(v) for k, v in data.items()
        },
        ("PayloadMeta", "path_name"): names.identifier,
        ("PayloadMeta", "use_pickle"): values.no_pickle,
    }
)
"""By record and field: what is stricter or looser than its type."""
