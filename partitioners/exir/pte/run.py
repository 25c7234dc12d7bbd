"""Run `.pte` programs in Python: kernels with torch, delegates on their backends' runtimes."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch

from npu_assay.partitioners.exir.backend import NamedDataRuntime, Runtime
from npu_assay.partitioners.exir.errors import BackendError, ExirError, InputError
from npu_assay.partitioners.exir.pte.frame import Frame
from npu_assay.partitioners.exir.pte.kernels import FAILURES, Kernel, kernel, spelled
from npu_assay.partitioners.exir.pte.model import (
    Buffer,
    Chain,
    Delegate,
    DelegateCall,
    EValue,
    FreeCall,
    Instruction,
    IntList,
    JumpFalseCall,
    KernelCall,
    MoveCall,
    OptionalTensorList,
    Plan,
    Program,
    Tensor,
    TensorList,
    operands,
)
from npu_assay.partitioners.exir.pte.reader import read
from npu_assay.partitioners.exir.run import registered_runtime, registered_runtimes
from npu_assay.partitioners.exir.values import describe

STEP_LIMIT: Final = 2**18
"""Instructions that one call of a method may run, loops included."""

MEMORY_LIMIT: Final = 2**30
"""Bytes that the arenas of a method, and its tensors outside of them, may have together."""


def load(
    source: Buffer | Program,
    runtimes: Mapping[str, Runtime] | None = None,
    *,
    step_limit: int = STEP_LIMIT,
    memory_limit: int = MEMORY_LIMIT,
) -> Loaded:
    """A program ready to run. `runtimes`, by backend id, go before the registered ones.

    Raises FormatError for bytes that are not a valid `.pte` file.
    """
    program = source if isinstance(source, Program) else read(source)
    return Loaded(program, dict(runtimes or {}), step_limit, memory_limit)


class Loaded:
    """A loaded program. A method is loaded when it is first called, and keeps its buffers from call to call."""

    def __init__(self, program: Program, runtimes: dict[str, Runtime], step_limit: int, memory_limit: int) -> None:
        self.program = program
        self._runtimes, self._step_limit, self._memory_limit = runtimes, step_limit, memory_limit
        self._methods: dict[str, _Method] = {}

    @property
    def methods(self) -> tuple[str, ...]:
        """Names of the methods, in the order of the file."""
        return tuple(dict.fromkeys(plan.name for plan in self.program.plans))

    def plan(self, method: str) -> Plan:
        """The first method of that name. Raises InputError when there is none."""
        for plan in self.program.plans:
            if plan.name == method:
                return plan
        raise InputError("no such method", repr(method), f"one of {list(self.methods)}", "program")

    def execute(self, method: str = "forward", inputs: Sequence[Any] = ()) -> list[Any]:
        """The outputs of a method, as tensors of their own, numbers, strings and lists of them.

        Raises InputError for inputs that do not fit, BackendError for a delegate that cannot run, and ExirError
        for everything else that cannot be executed.
        """
        plan = self.plan(method)
        if method not in self._methods:
            self._methods[method] = _Method(plan, self.program.named_data, self._runtimes, self._memory_limit)
        running = self._methods[method]
        running.take(inputs)
        try:
            with warnings.catch_warnings(), torch.no_grad():
                # A kernel that resizes its result warns; a result of a wrong size is an error here.
                warnings.filterwarnings("ignore", message="An output with one or more elements was resized")
                running.run(self._step_limit)
                return [running.output(index) for index in plan.outputs]
        except ExirError:
            del self._methods[method]  # what a failed kernel left behind is of no use
            raise


# ------------------------------------------------------------------------------------------------ methods


@dataclass(frozen=True)
class _LoadedDelegate:
    id: str
    runtime: Runtime
    handle: Any


class _Method:
    """A method's memory, and its operators and delegates ready to be called."""

    def __init__(
        self, plan: Plan, named_data: Mapping[str, Buffer], runtimes: Mapping[str, Runtime], memory_limit: int
    ) -> None:
        self.plan = plan
        self.frame = Frame(plan, named_data, memory_limit)
        self.kernels = [self._kernel(index) for index in range(len(plan.operators))]
        self.delegates = [self._delegate(index, named_data, runtimes) for index in range(len(plan.delegates))]
        self.read = _read_values(plan)

    def _kernel(self, index: int) -> Kernel:
        found = kernel(self.plan.operators[index])
        if found is None:
            name = spelled(self.plan.operators[index])
            raise self.frame.error("operator", repr(name), "one that a .pte file may call", f"operator {index}")
        return found

    def _delegate(
        self, index: int, named_data: Mapping[str, Buffer], runtimes: Mapping[str, Runtime]
    ) -> _LoadedDelegate:
        delegate = self.plan.delegates[index]
        where = f"method {self.plan.name!r}, delegate {index}"
        runtime = runtimes.get(delegate.id) or registered_runtime(delegate.id)
        if runtime is None:
            known = sorted({*runtimes, *registered_runtimes()})
            expected = f"one of {known}, or runtimes={{{delegate.id!r}: backend.runtime}}, or --backend of 'assay run'"
            raise BackendError("no runtime for its backend", repr(delegate.id), expected, where)
        try:
            return _LoadedDelegate(delegate.id, runtime, _handle(runtime, delegate, named_data))
        except FAILURES as failure:
            raise BackendError(
                f"{delegate.id} does not load its blob", _line(failure), "a blob of this backend", where
            ) from failure

    # -------------------------------------------------------------------------------------------- inputs, outputs

    def take(self, inputs: Sequence[Any]) -> None:
        """Let the values of the inputs be these."""
        where = f"method {self.plan.name!r}"
        if len(inputs) != len(self.plan.inputs):
            raise InputError("wrong number of inputs", str(len(inputs)), str(len(self.plan.inputs)), where)
        for number, (index, given) in enumerate(zip(self.plan.inputs, inputs, strict=True)):
            try:
                self._take(index, given)
            except ExirError as error:
                raise InputError("wrong input", error.found, error.expected, f"{where}, input {number}") from error

    def _take(self, index: int, given: Any) -> None:
        value = self.plan.values[index]
        if isinstance(value, Tensor) and isinstance(given, torch.Tensor):
            self.frame.put(index, given.detach(), "inputs")
        elif isinstance(value, Tensor) or type(given) is not type(value):
            raise self.frame.error("input", describe(given), _expected(value), "inputs")
        elif type(given) is int and index in self.read:
            self.frame.store(index, given, "inputs")
        elif given != value:  # the program was made for this value
            raise self.frame.error("input", repr(given), repr(value), "inputs")

    def output(self, index: int) -> Any:
        """The value, in memory of its own."""
        value = self.frame.get(index, "outputs")
        if isinstance(value, list):
            return [each.clone() if isinstance(each, torch.Tensor) else each for each in value]
        return value.clone() if isinstance(value, torch.Tensor) else value

    # -------------------------------------------------------------------------------------------- instructions

    def run(self, step_limit: int) -> None:
        left = step_limit
        for number, chain in enumerate(self.plan.chains):
            left = self._run_chain(chain, left, f"chain {number}" if number else "")

    def _run_chain(self, chain: Chain, left: int, name: str) -> int:
        place = 0
        while place < len(chain.instructions):
            where = f"{name}{', ' if name else ''}instruction {place}"
            if left == 0:
                raise self.frame.error("loop", "no end", "fewer instructions than the limit on steps", where)
            left -= 1
            instruction = chain.instructions[place]
            place = place + 1
            if not isinstance(instruction, JumpFalseCall):
                self._run(instruction, where)
            elif not self._condition(instruction.condition, where):
                place = instruction.destination
        return left

    def _condition(self, index: int, where: str) -> bool:
        value = self.frame.values[index]
        if isinstance(value, torch.Tensor) and value.dtype == torch.bool and value.numel():
            return bool(value.all())
        if isinstance(value, bool):
            return value
        raise self.frame.error("condition", describe(value), "a boolean or a tensor of booleans", where)

    def _run(self, instruction: Instruction, where: str) -> None:
        match instruction:
            case KernelCall(op_index=index, args=args):
                self._call(index, args, where)
            case DelegateCall(delegate_index=index, args=args):
                self._call_delegate(instruction, self.delegates[index], where)
            case MoveCall(source=source, target=target):
                self.frame.move(source, target, where)
            case FreeCall(value=value):
                self._free(value)

    def _call(self, index: int, args: Sequence[int], where: str) -> None:
        name = spelled(self.plan.operators[index])
        try:
            self.kernels[index](self.frame, args, f"{where} {name}")
        except ExirError:
            raise
        except FAILURES as failure:
            raise self.frame.error(name, _line(failure), "arguments that it takes", where) from failure

    def _free(self, index: int) -> None:
        """Forget a tensor that no plan gives memory."""
        value = self.plan.values[index]
        if isinstance(value, Tensor) and value.allocation is None and value.data is None:
            self.frame.values[index] = None

    # -------------------------------------------------------------------------------------------- delegates

    def _call_delegate(self, call: DelegateCall, delegate: _LoadedDelegate, where: str) -> None:
        where = f"{where} {delegate.id}"
        count = self._input_count(call, delegate.handle)
        if count > len(call.args):
            raise self.frame.error("arguments", len(call.args), f"{count} inputs and the outputs", where)
        inputs = [self.frame.get(index, where) for index in call.args[:count]]
        try:
            outputs = list(delegate.runtime.execute(delegate.handle, inputs))
        except FAILURES as failure:
            raise BackendError(
                f"{delegate.id} does not run",
                _line(failure),
                "inputs that it takes",
                f"method {self.plan.name!r}, {where}",
            ) from failure
        if count + len(outputs) != len(call.args):
            raise self.frame.error("outputs", len(outputs), str(len(call.args) - count), where)
        for index, output in zip(call.args[count:], outputs, strict=True):
            if not isinstance(output, torch.Tensor):
                raise self.frame.error(f"output {index}", describe(output), "a tensor", where)
            self.frame.put(index, output, where)

    def _input_count(self, call: DelegateCall, handle: Any) -> int:
        """How many of a call's arguments are inputs: what the handle says, else those before its results."""
        inputs = getattr(handle, "inputs", None)
        if isinstance(inputs, Sequence):
            return len(inputs)
        return len(call.args) - _result_count(self.plan, call)


def _handle(runtime: Runtime, delegate: Delegate, named_data: Mapping[str, Buffer]) -> Any:
    data, specs = bytes(delegate.data), list(delegate.compile_specs)
    if isinstance(runtime, NamedDataRuntime) and named_data:
        return runtime.load_named(data, specs, {key: bytes(each) for key, each in named_data.items()})
    return runtime.load(data, specs)


def _read_values(plan: Plan) -> frozenset[int]:
    """Values that instructions, lists or outputs refer to."""
    found = set(plan.outputs)
    for value in plan.values:
        found.update(value.items if isinstance(value, IntList | TensorList | OptionalTensorList) else ())
    for chain in plan.chains:
        for instruction in chain.instructions:
            found.update(operands(instruction))
    return frozenset(found)


def _result_count(plan: Plan, call: DelegateCall) -> int:
    """How many of the last arguments are plain tensors that nothing gives a content before this call."""
    known = set(plan.inputs)
    for instruction in (each for chain in plan.chains for each in chain.instructions):
        if instruction is call:
            break
        known.update(operands(instruction))
    count = 0
    for index in reversed(call.args):
        value = plan.values[index]
        if index in known or not isinstance(value, Tensor) or value.data is not None or value.name is not None:
            break
        count += 1
    return count


def _expected(value: EValue) -> str:
    """How a plan's input reads in an error."""
    if isinstance(value, Tensor):
        return f"{str(value.dtype).removeprefix('torch.')}{list(value.sizes)}"
    return "None" if value is None else f"a value of type {type(value).__name__}"


def _line(failure: BaseException) -> str:
    """The first line of an error."""
    return next(iter(str(failure).splitlines()), type(failure).__name__)
