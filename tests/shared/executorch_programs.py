"""Modules and their program files in several tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import export

from npu_assay.partitioners.exir import (
    EdgeProgramManager,
    ExecutorchProgramManager,
    to_edge,
)
from npu_assay.partitioners.exir.pte.model import KernelCall, Plan


class Function(nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: Any) -> Any:
        return self.function(*inputs)


class Counter(nn.Module):
    count: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.full((3,), 5.0))

    def forward(self, x: Tensor) -> Tensor:
        self.count.add_(1)
        return self.count * x


def randn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def edge(model: nn.Module | Callable[..., Any], *inputs: Any, **options: Any) -> EdgeProgramManager:
    module = model if isinstance(model, nn.Module) else Function(model)
    with torch.no_grad():
        return to_edge(export(module.eval(), inputs, **options))


def plan_of(manager: ExecutorchProgramManager, method: str = "forward") -> Plan:
    return next(p for p in manager.executorch_program.plans if p.name == method)


def called(manager: ExecutorchProgramManager) -> list[str]:
    """The operators of the forward method in the order of their calls."""
    plan = plan_of(manager)
    names = [f"{op.name}.{op.overload}" if op.overload else op.name for op in plan.operators]
    return [names[i.op_index] for i in plan.chains[0].instructions if isinstance(i, KernelCall)]


# ------------------------------------------------------------------------------------------------ results


CASES: dict[str, tuple[Callable[..., Any], tuple[Tensor, ...]]] = {
    "add": (lambda x, y: x + y, (randn(2, 3), randn(2, 3, seed=1))),
    "views": (lambda x: torch.relu((x * x).reshape(3, 4).flatten().unsqueeze(1)) * 2.5, (randn(2, 6),)),
    "view of an input": (lambda x: torch.relu(x.reshape(-1)), (randn(2, 6),)),
    "view returned": (lambda x: (x + 1).reshape(-1), (randn(2, 6),)),
    "split": (lambda x: x.split([1, 2, 3], 1), (randn(2, 6),)),
    "pool": (lambda x: nn.functional.max_pool2d(x, 2), (randn(1, 2, 4, 4),)),
    "layer norm": (lambda x: nn.functional.layer_norm(x, (6,)), (randn(2, 6),)),
    "top": (lambda x: torch.topk(x, 2), (randn(3, 5),)),
    "index": (lambda x, i: x[:, i], (randn(2, 6), torch.tensor([3, 0]))),
    "integers": (lambda x: (x + 3, x // 2), (torch.arange(12).reshape(3, 4),)),
    "returned twice": (lambda x: (x, (y := x + 1), y), (randn(2, 3),)),
}
