"""The ATen operators that torch itself makes of a user's API: `torch.swapaxes`, `Tensor.view`, `nn.functional.glu`.

A function that torch lets others override, or a module, is called with small operands and traced twice: as exported
programs have it, and after the decompositions of the dispatcher.
"""

from __future__ import annotations

import contextlib
import inspect
import itertools
import operator
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.fx.experimental.proxy_tensor import make_fx
from torch.overrides import get_testing_overrides

from npu_assay.conformance.common.memory import keep

RANKS, MOST, SIZES = (4, 2, 3, 5), 4, (4, 2, 1)  # of operands; parameters without a default; what modules are made with
REFUSALS = (RuntimeError, TypeError, ValueError, LookupError, AttributeError, AssertionError, ArithmeticError)
"""What torch raises for operands that a function does not take."""
PLACES = (
    (r"(?:torch\.)?Tensor\.", Tensor),
    (r"(?:(?:torch\.)?nn\.functional|F)\.", nn.functional),
    (r"(?:torch\.)?nn\.", nn),
    (r"torch\.linalg\.", torch.linalg),
    (r"torch\.", torch),
)


@keep(2048)
def traced(name: str) -> tuple[str, ...]:
    """The operators, one of which is a whole call of this API; () for any other name."""
    place, short = next(((place, name[m.end() :]) for sign, place in PLACES if (m := re.match(sign, name))), (None, ""))
    # A public name that changes no operand: `view`, `__getitem__`, but not `add_`.
    plain = not (short.startswith("_") or short.endswith("_")) or hasattr(operator, short)
    target: Any = getattr(place, short, None) if short.isidentifier() and plain else None
    if isinstance(target, type):
        return _operators(_modules(target) if issubclass(target, nn.Module) else iter(()))
    stand_in = get_testing_overrides().get(target) if callable(target) else None  # with the same parameters
    return () if stand_in is None else _operators(_calls(target, _needed(stand_in)))


def functional_of(name: str) -> str:
    """The overload of the same arguments without those that are written to: `convolution.default` of `.out`."""
    *_, base, overload = f"..{name}".split(".")
    packet = getattr(torch.ops.aten, base, None) if name.startswith("aten.") and overload.endswith("out") else None
    kinds = {} if packet is None else {each: _described(getattr(packet, each)) for each in packet.overloads()}
    return next((f"aten.{base}.{o}" for o, kind in kinds.items() if o != overload and kind == kinds.get(overload)), "")


def _described(function: Any) -> list[tuple[str, str]]:
    return [(each.name, str(each.type)) for each in function._schema.arguments if not each.is_out]


def _operators(calls: Iterator[Callable[[Tensor], Any]]) -> tuple[str, ...]:
    found, ranks = dict[str, None](), set[int]()
    with torch.random.fork_rng(devices=()), torch.no_grad(), warnings.catch_warnings(action="ignore"):
        for call, rank in itertools.product(calls, RANKS):
            with contextlib.suppress(*REFUSALS):
                if rank not in ranks:
                    call(x := torch.ones((4,) * rank))
                    ranks.add(rank)
                    found |= dict.fromkeys((*_of_call(call, x, True), *_of_call(call, x, False)))
    return tuple(found)


def _of_call(call: Callable[[Tensor], Any], x: Tensor, early: bool) -> Sequence[str]:
    """The operator of a call that is one alone. early: before the dispatcher decomposes it."""
    nodes = make_fx(call, pre_dispatch=early)(x).graph.nodes
    found = [str(node.target) for node in nodes if isinstance(node.target, torch._ops.OpOverload)]
    rest = [each for each in found if not each.startswith(("aten.detach.", "aten.alias."))]
    return rest if len(rest) == 1 else ()


def _needed(function: Callable[..., Any]) -> int:
    return sum(each.default is each.empty for each in inspect.signature(function).parameters.values())


def _calls(function: Any, needed: int) -> Iterator[Callable[[Tensor], Any]]:
    """Calls with every choice for the parameters that have no default."""
    for kinds in itertools.product((0, 4), *[range(5)] * (min(needed, MOST) - 1)):
        yield _call(function, kinds)


def _call(function: Any, kinds: Sequence[int]) -> Callable[[Tensor], Any]:
    return lambda x: function(*((x, -1, 1, list(x.shape), [x, x])[kind] for kind in kinds))


def _modules(kind: type[nn.Module]) -> Iterator[Callable[[Tensor], Any]]:
    """Modules of numbers for the parameters that have no default."""
    for size in SIZES:
        with contextlib.suppress(*REFUSALS):  # of a module that is made of something else
            yield kind(*[size] * _needed(kind)).eval()
