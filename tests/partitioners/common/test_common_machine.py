"""What all simulated devices share, on a program of two calls."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from npu_assay.partitioners.common.machine import (
    Call,
    DeviceError,
    InputError,
    Port,
    Program,
    Unpredictable,
    UnpredictableError,
    at_most,
    limits_of_kernels,
    parts,
    tensor_of,
)

X = torch.tensor([[1.0, 2.0, 3.0]])


def program(*outputs: int) -> Program[Call, Port]:
    """Value 0 is the input, 1 and 4 are constants; 2 = 0 + 1, 3 = 2 * 2."""
    calls = (Call(torch.add, (0, 1), 2, "first"), Call(lambda x: x * x, (2,), 3, "second"))
    data = [None, np.array([10.0], np.float32), None, None, np.array([7.0], np.float32)]
    ports = tuple(Port(f"y{index}", index, torch.float32, (1, 3)) for index in outputs)
    return Program(*parts(data, tensor_of, calls, (Port("x", 0, torch.float32, (1, 3)),), ports))


def test_calls_run_in_order_and_outputs_are_fresh() -> None:
    (found,) = program(3).run([X])
    assert found.tolist() == [[121.0, 144.0, 169.0]]
    assert not found.is_inference()
    assert X.tolist() == [[1.0, 2.0, 3.0]]


def test_values_are_freed_after_their_last_use_but_for_outputs() -> None:
    assert [set(dead) for dead in program(3).last_use] == [{0, 1}, {2}]
    assert [set(dead) for dead in program(2, 3).last_use] == [{0, 1}, set()]
    assert [found.tolist() for found in program(2, 3).run([X])] == [[[11.0, 12.0, 13.0]], [[121.0, 144.0, 169.0]]]


def test_only_constants_that_are_used_are_loaded() -> None:
    assert [value is not None for value in program(3).constants] == [False, True, False, False, False]
    assert [value is not None for value in program(4).constants] == [False, True, False, False, True]


def test_a_constant_survives_runs() -> None:
    handle = program(3)
    assert torch.equal(handle.run([X])[0], handle.run([X])[0])


def test_axes_are_moved_on_the_way_in_and_back_on_the_way_out() -> None:
    port = Port("x", 0, torch.float32, (2, 3, 4), (1, 2, 0))
    tensor = torch.arange(24.0).reshape(2, 3, 4)
    assert port.accepted(tensor).shape == (3, 4, 2)
    assert torch.equal(port.returned(port.accepted(tensor)), tensor)


@pytest.mark.parametrize("inputs", [[], [X, X], [X.double()], [X[:, :2]]])
def test_inputs_that_do_not_fit_are_refused(inputs: list[torch.Tensor]) -> None:
    with pytest.raises(InputError, match="device input"):
        program(3).run(inputs)


def test_numbers_without_a_result_name_the_operator() -> None:
    def refusing(x: torch.Tensor) -> torch.Tensor:
        raise Unpredictable("sum", 300, "from -128 to 127")

    ports = tuple(Port(name, index, torch.float32, (1, 3)) for index, name in enumerate("xy"))
    handle = Program(*parts([None, None], tensor_of, (Call(refusing, (0,), 1, "operator 0"),), ports[:1], ports[1:]))
    with pytest.raises(UnpredictableError, match="operator 0: sum is 300, expected from -128 to 127"):
        handle.run([X])


def test_limits() -> None:
    at_most("elements", 5, 5, "here")
    with pytest.raises(DeviceError, match="here: elements is 6, expected at most 5"):
        at_most("elements", 6, 5, "here")
    with pytest.raises(DeviceError, match="there: kernel parameters is too wide"), limits_of_kernels("there"):
        raise ValueError("too wide")


def test_a_kernel_may_make_several_values() -> None:
    call = Call(lambda x: (x + 1, x + 2), (0,), 1, "both", (2,))
    x, *ports = (Port(name, index, torch.float32, (1, 3)) for index, name in enumerate("xyz"))
    handle = Program(*parts([None] * 3, tensor_of, (call,), (x,), tuple(ports)))
    assert [found.tolist() for found in handle.run([X])] == [[[2.0, 3.0, 4.0]], [[3.0, 4.0, 5.0]]]
    assert Program(*parts([None] * 3, tensor_of, (call,), (x,), tuple(ports[:1]))).last_use == ((0, 2),)
    with pytest.raises(ValueError, match="zip"):
        Program(*parts([None] * 3, tensor_of, (replace(call, kernel=lambda x: (x,)),), (x,), tuple(ports))).run([X])
