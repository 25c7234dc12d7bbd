"""Programs run from `.pte` files: planned memory, open sizes, branches and loops, buffers, delegates, errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from pte_programs import (
    ADD,
    TwiceRuntime,
    added,
    choosing,
    counting,
    delegated,
    external,
    floats,
    listing,
    looping,
    plan,
    with_constants,
)

from npu_assay.partitioners.exir import register_runtime
from npu_assay.partitioners.exir.backend import CompileSpec
from npu_assay.partitioners.exir.errors import BackendError, ExirError, InputError
from npu_assay.partitioners.exir.pte import (
    Allocation,
    IntList,
    KernelCall,
    Operator,
    Program,
    Tensor,
    TensorList,
    write,
)
from npu_assay.partitioners.exir.pte.allowed import ALLOWED
from npu_assay.partitioners.exir.pte.kernels import kernel
from npu_assay.partitioners.exir.pte.run import Loaded, load

X = torch.arange(6.0).reshape(2, 3)
TWICE = {"TwiceBackend": TwiceRuntime()}


def loaded(program: Program, **options: Any) -> Loaded:
    """The program from the bytes of its file."""
    return load(write(program), **options)


def call(name: str, overload: str, values: Sequence[Any], inputs: Sequence[Any], outputs: Sequence[int]) -> list[Any]:
    """The outputs of one operator on all the values in order; the first ones are the inputs."""
    arguments = tuple(range(len(values)))
    method = plan(values, [Operator(name, overload)], [KernelCall(0, arguments)], range(len(inputs)), outputs)
    return loaded(Program((method,))).execute("forward", inputs)


def test_a_kernel_writes_its_planned_output() -> None:
    (found,) = loaded(added()).execute("forward", [X, X + 1])
    assert torch.equal(found, 2 * X + 1)


def test_a_plan_in_which_tensors_overlap_gives_wrong_results() -> None:
    """x + x to where x is, then its old self is read again."""
    values = [floats(2, 3, at=0), 1, floats(2, 3, at=0), floats(2, 3, at=32)]
    calls = [KernelCall(0, (0, 0, 1, 2, 2)), KernelCall(0, (0, 2, 1, 3, 3))]
    (found,) = loaded(Program((plan(values, [ADD], calls, [0], [3]),))).execute("forward", [X])
    assert torch.equal(found, 4 * X)  # 3 * X where x keeps its memory


def test_outputs_and_inputs_are_the_callers_own() -> None:
    program, given = loaded(added()), X.clone()
    (first,) = program.execute("forward", [given, given])
    program.execute("forward", [given + 1, given])
    assert torch.equal(first, 2 * X) and torch.equal(given, X)


def test_constants_and_constant_methods() -> None:
    program = loaded(with_constants())
    assert program.methods == ("forward", "answers")
    assert program.execute("answers") == [42, 2.5, "text", True, None]
    found, constant = program.execute("forward", [X])
    assert torch.equal(found, 2 * X) and constant.tolist() == [1, 2, 3]
    constant.zero_()
    assert program.execute("forward", [X])[1].tolist() == [1, 2, 3]


def test_buffers_are_kept_from_call_to_call_and_start_from_their_data() -> None:
    program = loaded(counting())
    assert torch.equal(program.execute("forward", [X])[0], 2 * X)
    assert torch.equal(program.execute("forward", [X])[0], 3 * X)
    assert torch.equal(loaded(counting()).execute("forward", [X])[0], 2 * X)


@pytest.mark.parametrize("size", [0, 1, 5, 8])
def test_sizes_below_the_bound_and_branches(size: int) -> None:
    program, x = loaded(choosing()), torch.arange(float(size))
    for flag in (True, False, True):
        (found,) = program.execute("forward", [x, torch.tensor(flag)])
        assert torch.equal(found, 2 * x if flag else x)


def test_a_loop() -> None:
    count, total = loaded(looping()).execute("forward", [X, 5])
    assert count == 5 and torch.equal(total, 5 * X)


def test_a_loop_is_bounded() -> None:
    with pytest.raises(ExirError, match=r"method 'forward', instruction \d: loop: found no end"):
        loaded(looping(), step_limit=50).execute("forward", [X, 1000])


def test_lists() -> None:
    rows, sizes, doubles, booleans, tensors = loaded(listing()).execute("forward", [X])
    assert torch.equal(rows, X[[1, 0]].view(3, 2))
    assert (sizes, doubles, booleans) == ([3, 2], [0.5, 1.5], [True, False])
    assert torch.equal(tensors[0], X) and torch.equal(tensors[1], X[[1, 0]])


def test_external_data_are_found_by_name() -> None:
    assert torch.equal(loaded(external()).execute("forward", [X])[0], 2 * X)
    with pytest.raises(ExirError, match="external data 'w': found no such data"):
        loaded(replace(external(), named_data={})).execute("forward", [X])


# ------------------------------------------------------------------------------------------------ operators


def test_channels_last_results_lie_in_their_order() -> None:
    spec = Tensor(torch.float32, (1, 2, 2, 2), (0, 2, 3, 1), allocation=Allocation(1, 64))
    x = torch.arange(8.0).reshape(1, 2, 2, 2)
    for values in (
        [floats(1, 2, 2, 2, at=0), False, None, spec, spec],
        [floats(1, 2, 2, 2, at=0), False, None, replace(spec, dynamism="bound"), spec],
    ):
        (found,) = call("dim_order_ops::_clone_dim_order", "out", values, [x], [4])
        assert torch.equal(found, x) and found.is_contiguous(memory_format=torch.channels_last)


def test_an_operator_without_out_variant_is_copied_into_place() -> None:
    codes = Tensor(torch.int8, (2, 3), (0, 1), allocation=Allocation(1, 32))
    values = [floats(2, 3, at=0), 0.5, 1, -128, 127, 1, codes, codes]
    method = plan(
        values[:7],
        [Operator("quantized_decomposed::quantize_per_tensor", "out")],
        [KernelCall(0, (0, 1, 2, 3, 4, 5, 6, 6))],
        [0],
        [6],
    )
    (found,) = loaded(Program((method,))).execute("forward", [X])
    assert found.dtype == torch.int8 and found.tolist() == [[1, 3, 5], [7, 9, 11]]


def test_sizes_become_numbers() -> None:
    values = [floats(4, 3, at=0, dynamism="bound"), 0, 0]
    assert call("aten::sym_size", "int", values, [X], [2]) == [2]


@pytest.mark.parametrize(
    ("name", "values", "result"),
    [
        ("add.Scalar", (2, 3), 5),
        ("sub.Scalar", (2, 3.5), -1.5),
        ("mul.Scalar", (4, 3), 12),
        ("floordiv.Scalar", (-7, 2), -4),
        ("truediv.Scalar", (7, 2), 3.5),
        ("mod.Scalar", (-7, 4), 1),
        ("neg.Scalar", (3,), -3),
        ("eq.Scalar", (3, 3), True),
        ("lt.Scalar", (3, 3), False),
        ("ge.Scalar", (3, 3), True),
        ("sym_max.Scalar", (3, 4), 4),
        ("sym_float.Scalar", (3,), 3.0),
        ("sym_ite.Scalar", (False, 1, 2), 2),
        ("sym_not.Scalar", (False,), True),
        ("ceil.Scalar", (1.2,), 2),
        ("round.Scalar", (2.5,), 2),
    ],
)
def test_numbers(name: str, values: tuple[Any, ...], result: Any) -> None:
    operator, overload = name.split(".")
    found = call(f"executorch_prim::{operator}", overload, [*values, result], [], [len(values)])
    assert found == [result] and type(found[0]) is type(result)


def test_rows_are_stacked_by_index() -> None:
    values = [floats(3, at=0), 0, 1, 2, floats(4, 3, at=32, dynamism="bound")]
    operators = [Operator("executorch_prim::et_copy_index", "tensor"), ADD]
    calls = [KernelCall(0, (4, 0, index)) for index in (1, 2, 3)]
    (found,) = loaded(Program((plan(values, operators, calls, [0], [4]),))).execute("forward", [torch.ones(3)])
    assert torch.equal(found, torch.ones(3, 3))


def test_results_in_a_list() -> None:
    parts = [floats(2, at=32), floats(2, at=48)]
    values = [floats(2, 2, at=0), 0, *parts, TensorList((2, 3))]
    method = plan(values, [Operator("aten::unbind_copy", "int_out")], [KernelCall(0, (0, 1, 4, 4))], [0], [2, 3])
    found = loaded(Program((method,))).execute("forward", [torch.eye(2)])
    assert [each.tolist() for each in found] == [[1, 0], [0, 1]]


# ------------------------------------------------------------------------------------------------ delegates


def test_delegates_run_on_the_runtime_given_or_registered() -> None:
    assert torch.equal(loaded(delegated(), runtimes=TWICE).execute("forward", [X])[0], 4 * X)
    register_runtime("RegisteredBackend", TwiceRuntime())
    program = loaded(delegated(backend="RegisteredBackend"))
    assert torch.equal(program.execute("forward", [X])[0], 4 * X)


def test_a_delegate_without_runtime_is_named_beside_those_that_have_one() -> None:
    with pytest.raises(
        BackendError, match=r"delegate 0: no runtime for its backend: found 'Npu', expected one of \[.*'T"
    ):
        loaded(delegated(backend="Npu"), runtimes=TWICE).execute("forward", [X])


class NamedRuntime(TwiceRuntime):
    """Adds up what the named data hold."""

    def load_named(self, blob: bytes, specs: Sequence[CompileSpec], named_data: Mapping[str, bytes]) -> Any:
        return sum(map(len, named_data.values()))

    def execute(self, handle: Any, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        return [inputs[0] + handle]


def test_a_runtime_that_can_gets_the_named_data() -> None:
    program = loaded(delegated(), runtimes={"TwiceBackend": NamedRuntime()})
    assert torch.equal(program.execute("forward", [X])[0], X + 2 * 180)


class FaultyRuntime(TwiceRuntime):
    """Fails to load, to run, or gives something else, as its attribute says."""

    def __init__(self, fault: str) -> None:
        self.fault = fault

    def load(self, processed_bytes: bytes, compile_specs: Sequence[CompileSpec]) -> Any:
        if self.fault == "load":
            raise ValueError("header: magic is 0")
        return object()

    def execute(self, handle: Any, inputs: Sequence[torch.Tensor]) -> list[Any]:
        if self.fault == "execute":
            raise RuntimeError("device lost")
        answers: dict[str, list[Any]] = {"nothing": [], "shape": [inputs[0][:1]], "number": [3]}
        return answers[self.fault]


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("load", "delegate 0: TwiceBackend does not load its blob: found header: magic is 0"),
        ("execute", "instruction 0 TwiceBackend: TwiceBackend does not run: found device lost"),
        ("nothing", "outputs: found 0, expected 1"),
        ("shape", r"value 1: found float32\[1, 3\], expected float32\[2, 3\]"),
        ("number", "output 1: found int, expected a tensor"),
    ],
)
def test_a_runtime_that_fails_is_one_error(fault: str, message: str) -> None:
    with pytest.raises(ExirError, match=message):
        loaded(delegated(), runtimes={"TwiceBackend": FaultyRuntime(fault)}).execute("forward", [X])


# ------------------------------------------------------------------------------------------------ errors


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ([X], "method 'forward': wrong number of inputs: found 1, expected 2"),
        ([X, X[:1]], r"input 1: wrong input: found float32\[1, 3\], expected float32\[2, 3\]"),
        ([X, X.double()], r"input 1: wrong input: found float64\[2, 3\], expected float32\[2, 3\]"),
        ([X, 3], r"input 1: wrong input: found int, expected float32\[2, 3\]"),
    ],
)
def test_inputs_that_do_not_fit_are_named(inputs: list[Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        loaded(added()).execute("forward", inputs)


def test_a_value_that_the_program_was_made_for_cannot_be_another() -> None:
    program = loaded(Program((plan([True, 3], [], [], [0, 1], [0]),)))
    assert program.execute("forward", [True, 3]) == [True]
    for inputs in ([False, 3], [True, 4], [True, 3.0]):
        with pytest.raises(InputError, match="wrong input"):
            program.execute("forward", inputs)


def _broken(**changes: Any) -> Program:
    (method,) = added().plans
    return Program((replace(method, **changes),))


@pytest.mark.parametrize(
    ("program", "message"),
    [
        (_broken(operators=(Operator("aten::nothing", "out"),)), "operator 0: operator: found 'aten::nothing.out'"),
        (_broken(operators=(Operator("aten::mm", "out"),)), r"instruction 0 aten::mm.out: arguments|aten::mm.out"),
        (_broken(values=(*added().plans[0].values[:3], floats(2, 2, at=64))), r"result 3: found float32\[2, 3\]"),
        (_broken(values=(*added().plans[0].values[:3], floats(2, 3, data=range(6)))), "found a constant"),
        (
            _broken(values=(floats(2, 3, at=2), *added().plans[0].values[1:])),
            "offset: found 2, expected a multiple of 4",
        ),
        (_broken(values=(*added().plans[0].values[:2], "one", floats(2, 3, at=64))), "aten::add.out: found"),
        (
            _broken(buffer_sizes=(0, 2**40)),
            "load: memory in all: found 1099511627776 bytes, expected at most 1073741824",
        ),
        (_broken(buffer_sizes=(0, *[2**28] * 5)), "load: memory in all: found 1342177280 bytes"),
        (_broken(values=(*added().plans[0].values, *[floats(2**26)] * 4)), "load: memory in all: found 1073742080 b"),
    ],
)
def test_what_cannot_be_executed_is_one_error(program: Program, message: str) -> None:
    with pytest.raises(ExirError, match=message):
        loaded(program).execute("forward", [X, X])


@pytest.mark.parametrize(
    "name",
    [
        "aten::from_file.out",  # reads and writes files
        "aten::_print",  # writes to the terminal
        "aten::view_copy.dtype",  # these three end the process, or never return
        "aten::wait",
        "aten::_nnpack_spatial_convolution.out",
        "aten::linalg_eigvals",
        "prim::RaiseException",
        "profiler::_record_function_enter_new",
        "rngprims::philox_rand",
        "debugprims::load_tensor",
        "quantized_decomposed::choose_qparams_per_token",
    ],
)
def test_operators_outside_the_list_are_named_and_not_called(name: str) -> None:
    base, _, overload = name.partition(".")
    assert hasattr(getattr(torch.ops, base.split("::")[0]), base.split("::")[1])  # torch would call it
    with pytest.raises(ExirError, match=f"operator 0: operator: found '{name}.*one that a .pte file may call"):
        loaded(_broken(operators=(Operator(base, overload),))).execute("forward", [X, X])


def test_every_operator_of_the_list_is_there() -> None:
    names = [name.partition(".") for name in ALLOWED]
    assert all(kernel(Operator(base, "" if overload == "default" else overload)) for base, _, overload in names)
    assert {name.split("::")[0] for name in ALLOWED} == {"aten", "quantized_decomposed"}


def test_a_result_larger_than_its_bound_is_an_error() -> None:
    values = [floats(3, at=0), 2, 3, IntList((1, 2)), False, floats(1, 3, at=64, dynamism="bound")]
    method = plan(values, [Operator("aten::expand_copy", "out")], [KernelCall(0, (0, 3, 4, 5, 5))], [0], [5])
    with pytest.raises(ExirError, match=r"result 5: found float32\[2, 3\], expected at most float32\[1, 3\]"):
        loaded(Program((method,))).execute("forward", [torch.ones(3)])


def test_a_result_of_negative_size_is_an_error() -> None:
    """Torch makes one where another size is 0."""
    values = [-2, 0, IntList((0, 1)), floats(1, 1, dynamism="unbound")]
    method = plan(values, [Operator("aten::zeros", "out")], [KernelCall(0, (2, 3, 3))], [], [3])
    with pytest.raises(ExirError, match=r"result 3: found float32\[-2, 0\], expected the rank of"):
        loaded(Program((method,))).execute("forward", [])


def test_a_method_that_failed_starts_anew() -> None:
    """A failed call leaves nothing behind: the buffer starts from its data again."""
    program = loaded(counting(), step_limit=2)
    program.execute("forward", [X])
    with pytest.raises(InputError):
        program.execute("forward", [])
    assert torch.equal(program.execute("forward", [X])[0], 3 * X)  # nothing ran, nothing is lost


def test_an_unknown_method_is_named() -> None:
    with pytest.raises(InputError, match=r"found 'nothing', expected one of \['forward', 'answers'\]"):
        loaded(with_constants()).execute("nothing")


def test_division_by_zero_and_numbers_past_64_bits_are_errors() -> None:
    for name, values in (("floordiv", (1, 0)), ("mul", (2**62, 2))):
        with pytest.raises(ExirError, match=r"instruction 0:? executorch_prim"):
            call(f"executorch_prim::{name}", "Scalar", [*values, 0], [], [2])
