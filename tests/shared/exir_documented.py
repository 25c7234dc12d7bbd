"""A module that several tests export as the documents do."""

from __future__ import annotations

import operator
from importlib import import_module
from typing import Any

import torch
from exir_toy import random
from torch import Tensor, nn

X = random(2, 3)

EXPORT = "exir"


def printed(place: tuple[str, str]) -> Any:
    """What stands at a printed path."""
    module, name = place
    return operator.attrgetter(name)(import_module(f"npu_assay.partitioners.{module}"))


class Model(nn.Module):
    """A linear layer with a parameter, and a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.block = nn.Sequential(nn.Linear(3, 4), nn.ReLU())
        self.register_buffer("shift", torch.ones(4))

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        """(2, 3) -> {"y": (2, 4)}."""
        return {"y": self.block(x) + self.get_buffer("shift")}
