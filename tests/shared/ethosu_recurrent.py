"""Recurrent layers and cells, with inputs: what Ethos-U quantizes after unrolling it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn

FEATURES, HIDDEN = 4, 8
SEQUENCE, STATE = (3, 1, FEATURES), (1, 1, HIDDEN)
ELEMENT = (1, FEATURES)


class WithState(nn.Module):
    """An LSTM that is given its first state."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.LSTM(FEATURES, HIDDEN)

    def forward(self, x: Tensor, hidden: Tensor, cell: Tensor) -> object:
        return self.layer(x, (hidden, cell))


def stacked(kind: Callable[..., nn.Module], **options: bool) -> nn.Module:
    """Two layers in both directions, batch first."""
    return kind(FEATURES, HIDDEN, num_layers=2, bidirectional=True, batch_first=True, **options)


RECURRENT: Mapping[str, tuple[Callable[[], nn.Module], tuple[tuple[int, ...], ...]]] = {
    "lstm": (lambda: nn.LSTM(FEATURES, HIDDEN), (SEQUENCE,)),
    "gru": (lambda: nn.GRU(FEATURES, HIDDEN), (SEQUENCE,)),
    "rnn": (lambda: nn.RNN(FEATURES, HIDDEN), (SEQUENCE,)),
    "rnn_relu": (lambda: nn.RNN(FEATURES, HIDDEN, nonlinearity="relu"), (SEQUENCE,)),
    "lstm_without_bias": (lambda: nn.LSTM(FEATURES, HIDDEN, bias=False), (SEQUENCE,)),
    "lstm_with_state": (WithState, (SEQUENCE, STATE, STATE)),
    "lstm_unbatched": (lambda: nn.LSTM(FEATURES, HIDDEN), ((3, FEATURES),)),
    "lstm_cell": (lambda: nn.LSTMCell(FEATURES, HIDDEN), (ELEMENT,)),
    "gru_cell": (lambda: nn.GRUCell(FEATURES, HIDDEN), (ELEMENT,)),
    "rnn_cell": (lambda: nn.RNNCell(FEATURES, HIDDEN), (ELEMENT,)),
    "rnn_cell_relu": (lambda: nn.RNNCell(FEATURES, HIDDEN, nonlinearity="relu"), (ELEMENT,)),
    "lstm_projected": (lambda: nn.LSTM(FEATURES, HIDDEN, proj_size=3), (SEQUENCE,)),
    "lstm_stacked": (lambda: stacked(nn.LSTM), ((1, 3, FEATURES),)),
    "gru_stacked": (lambda: stacked(nn.GRU), ((1, 3, FEATURES),)),
    "rnn_stacked": (lambda: stacked(nn.RNN, bias=False), ((1, 3, FEATURES),)),
}
"""By name: the model, and the shapes of its inputs."""


def recurrent(name: str) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """The model in evaluation mode, with seeded weights and inputs."""
    make, shapes = RECURRENT[name]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return make().eval(), tuple(torch.randn(shape) for shape in shapes)


def results(found: object) -> list[Tensor]:
    """All tensors of a model's result."""
    if isinstance(found, Tensor):
        return [found]
    assert isinstance(found, (tuple, list))
    return [tensor for one in found for tensor in results(one)]
