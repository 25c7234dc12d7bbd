"""Sizes that a program leaves open: the device makes room for larger ones, and the program's limits hold."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim
from torch.nn.functional import avg_pool2d, max_pool2d, pad
from xnn_models import model, number

from npu_assay.partitioners.common.machine import InputError as DeviceInputError
from npu_assay.partitioners.exir import InputError, run_program, to_edge_transform_and_lower
from npu_assay.partitioners.xnnpack import XnnpackPartitioner, XnnpackRuntime
from npu_assay.partitioners.xnnpack.runtime import load_model
from npu_assay.partitioners.xnnpack.xnn_model import XNode


class Net(nn.Module):
    def __init__(self, function: Callable[..., Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


def real(*shape: int) -> Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(3)) + 0.5


def image(function: Callable[..., Tensor]) -> tuple[nn.Module, Tensor, Tensor, tuple[int, ...]]:
    """A function of images whose height is open, and images to export and to run it with."""
    return Net(function), real(2, 4, 6, 5), real(2, 4, 17, 5), (2,)


def layer(module: nn.Module) -> tuple[nn.Module, Tensor, Tensor, tuple[int, ...]]:
    return module, real(2, 4, 6, 5), real(5, 4, 17, 5), (0, 2)


OPERATORS = {
    "abs": (Net(torch.abs), real(2, 8), real(300, 8), (0,)),
    "add": (Net(lambda x: x + x), real(2, 8), real(3, 8), (0,)),
    "mul by a number": (Net(lambda x: x * 2.5), real(2, 8), real(3, 8), (0,)),
    "softmax": (Net(lambda x: x.softmax(-1)), real(2, 8), real(3, 70), (0, 1)),
    "cat": (Net(lambda x: torch.cat([x, x.abs() + 0.5], 1)), real(2, 8), real(3, 9), (0, 1)),
    "permute": image(lambda x: x.permute(0, 2, 3, 1)),
    "pad": image(lambda x: pad(x, (1, 2, 3, 0))),
    "mean": image(lambda x: x.mean((-1, -2), keepdim=True)),
    "avg_pool2d": image(lambda x: avg_pool2d(x, 2)),
    "max_pool2d": image(lambda x: max_pool2d(x, 3, 2, 1)),
    "unsqueeze": (Net(lambda x: x.unsqueeze(-1)), real(2, 8), real(9, 8), (0,)),
    "bmm": (Net(lambda x: torch.bmm(x, x.transpose(1, 2))), real(2, 3, 4), real(5, 9, 4), (0, 1)),
    "linear": (nn.Linear(8, 4), real(2, 3, 8), real(4, 5, 8), (0, 1)),
    "conv2d": layer(nn.Conv2d(4, 3, 3, padding=1)),
    "depthwise": layer(nn.Conv2d(4, 4, 3, groups=4)),
    "conv1d": (nn.Conv1d(4, 3, 3), real(2, 4, 9), real(2, 4, 30), (2,)),
    "conv1d, batch": (nn.Conv1d(4, 3, 3), real(2, 4, 9), real(7, 4, 9), (0,)),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_sizes_without_a_limit_may_be_larger_than_when_exported(name: str) -> None:
    module, example, x, open_axes = OPERATORS[name]
    hint = Dim("n") if name == "abs" else Dim.AUTO
    exported = torch.export.export(module.eval(), (example,), dynamic_shapes=(dict.fromkeys(open_axes, hint),))
    lowered = to_edge_transform_and_lower(exported, partitioner=[XnnpackPartitioner()]).exported_program()
    assert "executorch_call_delegate" in lowered.graph_module.code
    for tensor in (example, x):
        (found,) = run_program(lowered, [tensor], {"XnnpackBackend": XnnpackRuntime()})
        assert torch.allclose(found, module(tensor), atol=1e-5)


def test_the_programs_own_limit_holds() -> None:
    exported = torch.export.export(Net(torch.abs), (real(2, 8),), dynamic_shapes=({0: Dim("n", max=8)},))
    lowered = to_edge_transform_and_lower(exported, partitioner=[XnnpackPartitioner()]).exported_program()
    runtimes = {"XnnpackBackend": XnnpackRuntime()}
    assert run_program(lowered, [real(8, 8)], runtimes)[0].shape == (8, 8)
    with pytest.raises(InputError, match=r"size of axis 0 over its limit.*found 9.*expected to 8"):
        run_program(lowered, [real(9, 8)], runtimes)


def test_memory_is_limited_at_run_time_too() -> None:
    """Two vectors whose sum is a matrix too large."""
    values = [number("fp32", 2, 1), number("fp32", 1, 2), number("fp32", 2, 2)]
    program = load_model(model(values, [XNode("Add", (0, 1), (2,))], (0, 1), (2,)))
    with pytest.raises(DeviceInputError, match=r"shapes \[\[16384, 1\], \[1, 16384\]\].*elements of all values"):
        XnnpackRuntime().execute(program, [torch.zeros(2**14, 1), torch.zeros(1, 2**14)])


def test_windows_are_limited_at_run_time_too() -> None:
    """An image that fits, and whose windows do not: 513 x 513 places of 1,024 cells each."""
    options = {
        **{f"padding_{side}": 0 for side in ("top", "right", "bottom", "left")},
        **dict.fromkeys(("pooling_height", "pooling_width"), 32),
        **dict.fromkeys(("stride_height", "stride_width", "dilation_height", "dilation_width"), 1),
    }
    values = [number("fp32", 1, 32, 32, 1), number("fp32", 1, 1, 1, 1)]
    program = load_model(model(values, [XNode("MaxPooling2d", (0,), (1,), options)], (0,), (1,)))
    with pytest.raises(DeviceInputError, match="values in windows"):
        XnnpackRuntime().execute(program, [torch.zeros(1, 544, 544, 1)])
