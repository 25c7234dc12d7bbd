"""Run an edge program in Python: its own operators with torch, its delegates' blobs on their backends' runtimes."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import fx
from torch._higher_order_ops.executorch_call_delegate import executorch_call_delegate, is_lowered_module
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, InputSpec

from npu_assay.partitioners.exir.backend import Runtime
from npu_assay.partitioners.exir.constants import placeholders, user_inputs
from npu_assay.partitioners.exir.errors import BackendError, EdgeError, InputError
from npu_assay.partitioners.exir.ops import target_name
from npu_assay.partitioners.exir.program import user_outputs
from npu_assay.partitioners.exir.quantized import DIRECT
from npu_assay.partitioners.exir.values import arguments, describe

_RUNTIMES: dict[str, Runtime] = {}


def register_runtime(backend_id: str, runtime: Runtime) -> None:
    """Make `runtime` the one that runs delegates of `backend_id` when the caller names none."""
    _RUNTIMES[backend_id] = runtime


def registered_runtime(backend_id: str) -> Runtime | None:
    """The runtime registered for a backend, or None."""
    return _RUNTIMES.get(backend_id)


def registered_runtimes() -> tuple[str, ...]:
    """The ids of all backends that have a registered runtime."""
    return tuple(_RUNTIMES)


def run_program(
    program: ExportedProgram,
    inputs: Sequence[Any],
    runtimes: Mapping[str, Runtime] | None = None,
    *,
    original_modules: bool = False,
) -> list[Any]:
    """Run the program on `inputs`, one per user input, and return its user outputs.

    A delegate's blob runs on the runtime given for its backend id, else on the registered one; without either it is a
    BackendError. With `original_modules` no blob and no runtime takes part: torch runs the edge program that each
    delegate was compiled from. Buffers start from the program's state, which is not written: mutated
    buffers are computed and dropped. Raises InputError for inputs that do not fit, and for runtimes given beside
    `original_modules`; BackendError for a delegate whose runtime answers with the wrong tensors.
    """
    if original_modules and runtimes:
        found = ", ".join(sorted(runtimes))
        raise InputError("runtimes that nothing runs on", found, "none", "original_modules")
    values = _graph_inputs(program, inputs)
    with torch.no_grad():
        for node in program.graph.nodes:
            if node.target is operator.getitem:
                values[node] = _item(node, values)
            elif node.op == "call_function":
                values[node] = _run_node(node, values, None if original_modules else runtimes or {})
            elif node.op == "get_attr":
                values[node] = operator.attrgetter(node.target)(program.graph_module)
    return [values[o] if isinstance(o, fx.Node) else o for o in user_outputs(program)]


def _item(node: fx.Node, values: Mapping[fx.Node, Any]) -> Any:
    """What a `getitem` picks, mostly one result of several: a third of the nodes around delegates."""
    source, index = node.args
    if isinstance(source, fx.Node) and type(index) is int:
        return values[source][index]
    return operator.getitem(*arguments(node, values.__getitem__)[0])


def _run_node(node: fx.Node, values: Mapping[fx.Node, Any], runtimes: Mapping[str, Runtime] | None) -> Any:
    """One node's value; without `runtimes`, delegates run their original programs."""
    args, kwargs = arguments(node, values.__getitem__)
    if node.target is executorch_call_delegate and is_lowered_module(args[0]):
        if runtimes is None:
            return run_program(args[0].original_module, args[1:], original_modules=True)
        return run_delegate(args[0], args[1:], runtimes, where=node.name)
    direct = DIRECT.get(target_name(node.target)) if len(args) == 6 and not kwargs else None
    found = None if direct is None else direct(*args)
    target: Callable[..., Any] = node.target  # type: ignore[assignment]  # call_function targets are callable
    return target(*args, **kwargs) if found is None else found


def run_delegate(
    lowered: Any, inputs: Sequence[Any], runtimes: Mapping[str, Runtime], *, where: str = "delegate"
) -> list[Any]:
    """Run the blob of one LoweredBackendModule, see `run_program`. The loaded blob is kept in the module."""
    runtime = runtimes.get(lowered.backend_id) or registered_runtime(lowered.backend_id)
    if runtime is None:
        known = sorted({*runtimes, *registered_runtimes()})
        raise BackendError(
            "no runtime for its backend",
            repr(lowered.backend_id),
            f"one of {known}, or original_modules=True to run what the blob was compiled from",
            where,
        )
    outputs = list(runtime.execute(lowered.handle(runtime), list(inputs)))
    _check_outputs(lowered, outputs, where)
    return outputs


def _check_outputs(lowered: Any, outputs: Sequence[Any], where: str) -> None:
    wanted = lowered.returned()
    if len(wanted) != len(outputs):
        raise BackendError(
            f"runtime of {lowered.backend_id} returned the wrong number of outputs",
            str(len(outputs)),
            str(len(wanted)),
            where,
        )
    for index, ((node, kind), output) in enumerate(zip(wanted, outputs, strict=True)):
        if isinstance(output, torch.Tensor) and (output.dtype, output.shape) == kind:
            continue  # most of them: a small delegate has as many results as operators
        if not _fits(output, node.meta["val"]):
            raise BackendError(
                f"runtime of {lowered.backend_id} returned a wrong output {index} ({node.name})",
                describe(output),
                describe(node.meta["val"]),
                where,
            )


def check_inputs(program: ExportedProgram, inputs: Sequence[Any]) -> list[fx.Node]:
    """The program's placeholders for its user's inputs. Raises InputError for inputs that do not fit them."""
    users = user_inputs(program)
    if len(users) != len(inputs):
        raise InputError(
            "wrong number of inputs", str(len(inputs)), f"{len(users)} ({', '.join(n.name for n in users)})", "inputs"
        )
    for node, value in zip(users, inputs, strict=True):
        if not _fits(value, node.meta["val"]):
            raise InputError("wrong input", describe(value), describe(node.meta["val"]), node.name)
        if isinstance(value, torch.Tensor):
            _check_limits(value, node.meta["val"], node.name)
    return users


def _graph_inputs(program: ExportedProgram, inputs: Sequence[Any]) -> dict[fx.Node, Any]:
    values: dict[fx.Node, Any] = dict(zip(check_inputs(program, inputs), inputs, strict=True))
    for node, spec in placeholders(program):
        if spec.kind != InputKind.USER_INPUT:
            values[node] = constant_value(program, spec)
    return values


def _check_limits(value: torch.Tensor, expected: torch.Tensor, name: str) -> None:
    """Refuse sizes that the program bounds and that are larger: a delegate need not know the program's limits."""
    for axis, (size, limit) in enumerate(zip(value.shape, expected.shape, strict=True)):
        if isinstance(limit, int):
            continue
        most = limit.node.shape_env.bound_sympy(limit.node.expr).upper
        if size > most:
            raise InputError(f"size of axis {axis} over its limit", str(size), f"to {most}", name)


def constant_value(program: ExportedProgram, spec: InputSpec) -> Any:
    """The tensor (or object) of a parameter, buffer or constant of the signature."""
    target = str(spec.target)
    for store in (program.state_dict, program.constants):
        if target in store:
            return store[target]
    raise EdgeError("constant without a value", target, "a key of state_dict or constants", target)


def _fits(value: Any, expected: Any) -> bool:
    if not isinstance(expected, torch.Tensor):
        return not isinstance(value, torch.Tensor)
    if not isinstance(value, torch.Tensor) or value.dtype != expected.dtype:
        return False
    if not expected._has_symbolic_sizes_strides:
        return value.shape == expected.shape
    if value.dim() != expected.dim():
        return False
    return all(a == b for a, b in zip(value.shape, expected.shape, strict=True) if isinstance(b, int))
