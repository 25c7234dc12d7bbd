"""Observers of a model that is being quantized: what they decide is kept, and found without a tensor for each number.

torchao's search for the range of a histogram compares its sums bin by bin, each as a tensor of its own: a recurrent
network has hundreds of histograms, and waited for them most of the time. The walk here takes the same steps.
"""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, fx, nn

from npu_assay.conformance.common.memory import once
from npu_assay.conformance.explain.origins import place_of

STEP = 1e-5
"""The share of all numbers by which one end of the range moves at a time, as in torchao."""
FIRM_LEFT, FIRM_RIGHT = 1 - 1e-6, 1 + 1e-6
"""Factors beyond which a sum compares alike in float32 and in double."""
DECIDE = "calculate_qparams"
LIBRARIES = ("builtins", "torch", "torchao")
"""Modules of warnings that a user of the quantizer can do nothing about."""
NUMBER = re.compile(r"-?\d+(\.\d+)?(e-?\d+)?|\b(inf|nan)\b")
SEARCH = "_non_linear_param_search"


def decided(prepared: fx.GraphModule) -> list[tuple[str, str]]:
    """Let each observer decide once, in the order of the layers: what each warned of, after the layer's place.

    A bias asks the observers of its operands again, and some search for long: what they decide is kept.
    """
    _decide_once(prepared)
    found = list[tuple[str, str]]()
    for node in prepared.graph.nodes:
        decide = vars(prepared.get_submodule(node.target)).get(DECIDE) if node.op == "call_module" else None
        if decide is not None:
            with warnings.catch_warnings(record=True) as caught, suppress(Exception):  # what fails is asked again
                warnings.simplefilter("always")
                decide()
            layer = next((each for each in (*node.all_input_nodes, *node.users) if each.op == "call_function"), node)
            found += [(place_of(layer), str(each.message)) for each in caught if is_own(each)]
    return found


def is_own(warning: warnings.WarningMessage) -> bool:
    """True for one of a quantizer; its user can do nothing about those of libraries."""
    return not warning.category.__module__.startswith(LIBRARIES)


def folded(told: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Warnings that differ in their numbers alone as one: how many there are, and the first with its place."""
    alike: dict[str, list[tuple[str, str]]] = {}
    for place, text in told:
        alike.setdefault(NUMBER.sub("#", text), []).append((place, text))
    for (place, text), *others in alike.values():
        where = f"{len(others) + 1} times, first {place}: " if others else f"{place}: " if place else ""
        yield f"{where}{text}"


def _decide_once(prepared: nn.Module) -> None:
    for observer in prepared.modules():
        decide = getattr(observer, DECIDE, None)
        if callable(decide):
            vars(observer)[DECIDE] = once(decide)
        if callable(getattr(observer, SEARCH, None)):
            vars(observer)[SEARCH] = partial(best_range, observer)


def best_range(observer: Any) -> tuple[Tensor, Tensor]:
    """The part of a histogram's range with the least error of its codes, walking inwards until the error grows.

    A step takes the next share of numbers off both ends, and moves the one that then lies further inside.
    """
    sums = torch.cumsum(observer.histogram, dim=0).numpy()
    numbers = sums.tolist()
    total = torch.sum(observer.histogram).item()
    width = (observer.max_val - observer.min_val) / observer.bins
    left, right, least = 0, observer.bins - 1, math.inf
    below, above = (0.0, 1.0) if float(width) else (1.0, 1.0)  # of one number there is one range
    while below < above:
        low, high = below + STEP, above - STEP
        if low * total <= FIRM_LEFT * numbers[left] and high * total >= FIRM_RIGHT * numbers[right]:
            above = high  # no end moves, without a look at the other bins
            continue
        begin, end = _first(sums, left, right, low * total), _last(sums, left, right, high * total)
        if begin - left > right - end:
            below, end = low, right
        else:
            above, begin = high, left
        if (begin, end) == (left, right):
            continue
        error = observer._compute_quantization_error(begin, end)
        if error > least:
            break
        left, right, least = begin, end, error
    return observer.min_val + width * left, observer.min_val + width * (right + 1)


def _first(sums: Any, left: int, right: int, share: float) -> int:
    """The first bin from the left whose sum reaches a share; sums never fall, and compare in their own type."""
    return min(max(left, int(np.searchsorted(sums, np.float32(share), "left"))), right)


def _last(sums: Any, left: int, right: int, share: float) -> int:
    """The last bin from the right whose sum does not pass a share."""
    return max(min(right, int(np.searchsorted(sums, np.float32(share), "right")) - 1), left)
