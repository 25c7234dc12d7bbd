"""Recurrent layers and cells, unrolled: products, sums and tables for every element of the sequence.

torch's schemas give weights as a list, for each layer and direction: of the input, of the hidden state, then their
biases, then the projection, where there are any. States are lists of tensors: (layers * directions, batch, size).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import fx
from torch._ops import OpOverload

from npu_assay.partitioners.ethosu.rewriting.writer import Rewrite, Writer, shape

aten = torch.ops.aten
State: TypeAlias = tuple[fx.Node, ...]
"""The hidden state, and that of the cell where there is one; each (batch, size)."""
MIN_WEIGHTS = 2


@dataclass(frozen=True)
class Weights:
    """The weights of one layer in one direction."""

    input: fx.Node
    hidden: fx.Node
    input_bias: fx.Node | None = None
    hidden_bias: fx.Node | None = None
    projection: fx.Node | None = None


Step: TypeAlias = Callable[[Writer, fx.Node, State, Weights], State]
"""From an element of the sequence (batch, features) and a state to the next state."""


# ------------------------------------------------------------------------------------ one element


def _products(w: Writer, x: fx.Node, state: State, weights: Weights) -> tuple[fx.Node, fx.Node]:
    """What the gates take from the element and from the hidden state."""
    return (
        w.call(aten.linear.default, x, weights.input, weights.input_bias),
        w.call(aten.linear.default, state[0], weights.hidden, weights.hidden_bias),
    )


def _pieces(w: Writer, gates: fx.Node, count: int) -> list[fx.Node]:
    """Equal parts of the last dimension."""
    last = len(shape(gates)) - 1
    size = shape(gates)[last] // count
    return [w.call(aten.slice_copy.Tensor, gates, last, at * size, (at + 1) * size) for at in range(count)]


def lstm_step(w: Writer, x: fx.Node, state: State, weights: Weights) -> State:
    """Input, forget, cell and output gates, in torch's order."""
    gates = _pieces(w, w.call(aten.add.Tensor, *_products(w, x, state, weights)), 4)
    taken, kept, given = (w.call(aten.sigmoid.default, gates[at]) for at in (0, 1, 3))
    new = w.call(aten.mul.Tensor, taken, w.call(aten.tanh.default, gates[2]))
    cell = w.call(aten.add.Tensor, w.call(aten.mul.Tensor, kept, state[1]), new)
    hidden = w.call(aten.mul.Tensor, given, w.call(aten.tanh.default, cell))
    if weights.projection is not None:
        hidden = w.call(aten.linear.default, hidden, weights.projection)
    return hidden, cell


def gru_step(w: Writer, x: fx.Node, state: State, weights: Weights) -> State:
    """Reset, update and new gates, in torch's order: new + update * (hidden - new)."""
    first, second = (_pieces(w, found, 3) for found in _products(w, x, state, weights))
    reset, update = (w.call(aten.sigmoid.default, w.call(aten.add.Tensor, first[at], second[at])) for at in (0, 1))
    part = w.call(aten.mul.Tensor, reset, second[2])
    new = w.call(aten.tanh.default, w.call(aten.add.Tensor, first[2], part))
    change = w.call(aten.mul.Tensor, update, w.call(aten.sub.Tensor, state[0], new))
    return (w.call(aten.add.Tensor, new, change),)


def rnn_step(activation: OpOverload) -> Step:
    """A sum of two products, and an activation."""

    def step(w: Writer, x: fx.Node, state: State, weights: Weights) -> State:
        return (w.call(activation, w.call(aten.add.Tensor, *_products(w, x, state, weights))),)

    return step


# ------------------------------------------------------------------------------------ sequences


@dataclass(frozen=True)
class Layout:
    """How a layer's arguments are meant."""

    has_biases: bool
    layers: int
    directions: int
    time: int
    """The dimension of the sequence."""


def unrolled(
    w: Writer, input: fx.Node, states: Sequence[fx.Node], params: Sequence[fx.Node], how: Layout, step: Step
) -> list[fx.Node]:
    """The outputs in the input's layout, then the last states."""
    length = shape(input)[how.time]
    sequence = [w.call(aten.select.int, input, how.time, at) for at in range(length)]
    cells = how.layers * how.directions
    each = len(params) // cells
    last: list[State] = []
    for layer in range(how.layers):
        ways = []
        for direction in range(how.directions):
            index = layer * how.directions + direction
            weights = _weights(params[index * each : (index + 1) * each], how.has_biases)
            state = tuple(w.call(aten.select.int, found, 0, index) for found in states)
            ways.append(_one_way(w, sequence, state, weights, step, backwards=bool(direction)))
            last.append(ways[-1][0 if direction else length - 1])
        hidden = [[state[0] for state in states_at] for states_at in zip(*ways, strict=True)]
        sequence = [_joined(w, found, len(shape(found[0])) - 1) for found in hidden]
    ends = [_stacked(w, [state[at] for state in last], 0) for at in range(len(states))]
    return [_stacked(w, sequence, how.time), *ends]


def _weights(params: Sequence[fx.Node], has_biases: bool) -> Weights:
    biases = list(params[MIN_WEIGHTS : 2 * MIN_WEIGHTS]) if has_biases else [None, None]
    rest = params[2 * MIN_WEIGHTS if has_biases else MIN_WEIGHTS :]
    return Weights(*params[:MIN_WEIGHTS], *biases, *rest)


def _one_way(
    w: Writer, sequence: Sequence[fx.Node], state: State, weights: Weights, step: Step, *, backwards: bool
) -> list[State]:
    """The states by element, in the sequence's order whatever the direction."""
    found: list[State] = []
    for x in reversed(sequence) if backwards else sequence:
        state = step(w, x, state, weights)
        found.append(state)
    return found[::-1] if backwards else found


def _joined(w: Writer, nodes: Sequence[fx.Node], dim: int) -> fx.Node:
    return nodes[0] if len(nodes) == 1 else w.call(aten.cat.default, list(nodes), dim)


def _stacked(w: Writer, nodes: Sequence[fx.Node], dim: int) -> fx.Node:
    return _joined(w, [w.call(aten.unsqueeze.default, node, dim) for node in nodes], dim)


# ------------------------------------------------------------------------------------ rules


def layer(step: Step) -> Rewrite:
    """A recurrent layer; None with dropout. torch fixes the length of the sequence when it exports one."""

    def rule(
        w: Writer,
        input: fx.Node,
        hx: fx.Node | Sequence[fx.Node],
        params: Sequence[fx.Node],
        has_biases: bool,
        num_layers: int,
        dropout: float,
        train: bool,
        bidirectional: bool,
        batch_first: bool,
    ) -> list[fx.Node] | None:
        how = Layout(has_biases, num_layers, 2 if bidirectional else 1, 1 if batch_first else 0)
        if train and dropout:
            return None
        states = [hx] if isinstance(hx, fx.Node) else list(hx)
        return unrolled(w, input, states, params, how, step)

    return rule


def cell(step: Step) -> Rewrite:
    """One step."""

    def rule(
        w: Writer,
        input: fx.Node,
        hx: fx.Node | Sequence[fx.Node],
        w_ih: fx.Node,
        w_hh: fx.Node,
        b_ih: fx.Node | None = None,
        b_hh: fx.Node | None = None,
    ) -> fx.Node | list[fx.Node]:
        if isinstance(hx, fx.Node):
            return step(w, input, (hx,), Weights(w_ih, w_hh, b_ih, b_hh))[0]
        return list(step(w, input, tuple(hx), Weights(w_ih, w_hh, b_ih, b_hh)))

    return rule
