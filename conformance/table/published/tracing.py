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

from npu_assay.conformance.common.memory import keep, once

SIDE, RANKS = 4, (4, 2, 3, 5)  # of the operands
PARAMETERS, SIZES = 3, (4, 2, 1)  # most that a function needs after its operand; what a module is made with
REFUSALS = (RuntimeError, TypeError, ValueError, LookupError, AttributeError, AssertionError, ArithmeticError)
"""What torch raises for operands that a function does not take."""
_PLACES = (
    (re.compile(r"(?:torch\.)?Tensor\."), Tensor),
    (re.compile(r"(?:(?:torch\.)?nn\.functional|F)\."), nn.functional),
    (re.compile(r"(?:torch\.)?nn\."), nn),
    (re.compile(r"torch\.linalg\."), torch.linalg),
    (re.compile(r"torch\."), torch),
)


@keep(2048)
def traced(name: str) -> tuple[str, ...]:
    """The operators, one of which is a whole call of this API; () for what is no API of torch, and no such call."""
    place, short = next(((owner, name[m.end() :]) for sign, owner in _PLACES if (m := sign.match(name))), (None, ""))
    target = getattr(place, short, None) if _is_plain(short) else None
    if isinstance(target, type) and issubclass(target, nn.Module) and place is nn:
        return _operators(_modules(target))
    signature = _signatures().get(target) if callable(target) else None
    return () if signature is None else _operators(_calls(target, signature))


def functional_of(name: str) -> str:
    """The overload of the same arguments without those that are written to: `convolution.default` of `.out`."""
    *_, base, overload = f"..{name}".split(".")
    packet = getattr(torch.ops.aten, base, None) if name.startswith("aten.") and overload.endswith("out") else None
    if packet is None or overload not in packet.overloads():
        return ""
    wanted = _described(getattr(packet, overload))
    others = (each for each in packet.overloads() if each != overload)
    return next((f"aten.{base}.{o}" for o in others if _described(getattr(packet, o)) == wanted), "")


def _described(function: Any) -> list[tuple[str, str]]:
    return [(each.name, str(each.type)) for each in function._schema.arguments if not each.is_out]


def _is_plain(name: str) -> bool:
    """True for a name that is public and changes no operand: `view`, `__getitem__`, but not `add_`."""
    return name.isidentifier() and (not (name.startswith("_") or name.endswith("_")) or hasattr(operator, name))


@once
def _signatures() -> dict[Any, Callable[..., Any]]:
    """Functions that tensors' classes may override, each with a stand-in of the same parameters."""
    return get_testing_overrides()


def _operators(calls: Iterator[Callable[[Tensor], Any]]) -> tuple[str, ...]:
    found, ranks = dict[str, None](), set[int]()
    with torch.random.fork_rng(devices=()), torch.no_grad(), warnings.catch_warnings(action="ignore"):
        for call, rank in itertools.product(calls, RANKS):
            x = torch.ones((SIDE,) * rank)
            with contextlib.suppress(*REFUSALS):
                if rank not in ranks:
                    call(x)
                    ranks.add(rank)
                    found |= dict.fromkeys((*_of_call(call, x, True), *_of_call(call, x, False)))
    return tuple(found)


def _of_call(call: Callable[[Tensor], Any], x: Tensor, early: bool) -> Sequence[str]:
    """The operator of a call that is one alone. early: before the dispatcher decomposes it."""
    graph = make_fx(call, pre_dispatch=early)(x).graph
    found = [str(node.target) for node in graph.nodes if isinstance(node.target, torch._ops.OpOverload)]
    rest = [each for each in found if not each.startswith(("aten.detach.", "aten.alias."))]
    return rest if len(rest) == 1 else ()


def _calls(function: Any, stand_in: Callable[..., Any]) -> Iterator[Callable[[Tensor], Any]]:
    """Calls with every choice for the parameters that have no default."""
    needed = [each for each in inspect.signature(stand_in).parameters.values() if each.default is each.empty]
    for kinds in itertools.product(range(5), repeat=min(len(needed), PARAMETERS + 1) - 1):
        for first in (0, 4):
            yield _call(function, (first, *kinds))


def _call(function: Any, kinds: Sequence[int]) -> Callable[[Tensor], Any]:
    return lambda x: function(*(_argument(x, kind) for kind in kinds))


def _argument(x: Tensor, kind: int) -> Any:
    return (x, -1, 1, list(x.shape), [x, x])[kind]


def _modules(kind: type[nn.Module]) -> Iterator[Callable[[Tensor], Any]]:
    """Modules of numbers for the parameters that have no default."""
    needed = [each for each in inspect.signature(kind).parameters.values() if each.default is each.empty]
    for size in SIZES:
        with contextlib.suppress(*REFUSALS):  # of a module that is made of something else
            yield kind(*[size] * len(needed)).eval()
