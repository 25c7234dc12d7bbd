"""Why results carry nothing of the model: the first layer after which nothing of it is left."""

from __future__ import annotations

import math
from collections.abc import Sequence

from npu_assay.conformance.explain.cures import Seen, cures
from npu_assay.conformance.explain.origins import place_of
from npu_assay.conformance.explain.record import Comparison

NOTHING = 1.0  # dB: as much error as there is signal
LOST = 3.0  # dB of a layer that loses half of it by itself
FEW = 4  # steps of codes that all results of such a layer lie within


def silence(seen: Sequence[Seen], numbers: Sequence[Comparison]) -> str:
    """One sentence where results carry nothing of the model, "" where they do. seen: the layers in order."""
    silent = [each for each in numbers if each.sqnr is not None and each.sqnr < NOTHING]
    wanted = next((each for each in reversed(silent) if each.wanted in ("float", "torch")), None)
    if wanted is None:
        return ""
    begins = f"the results carry nothing of the model ({wanted.sqnr:.1f} dB, {wanted.given} against {wanted.wanted})"
    for layer in seen:
        if (wanted.given == "device" and layer.is_faulty) or (layer.own is not None and layer.own < LOST):
            return f"{begins}; nothing is left from {place_of(layer.node)}, on: {_why(layer)}"
    return f"{begins}, and no layer by itself loses that much: errors add up"


def _why(layer: Seen) -> str:
    if layer.grid is not None and not layer.is_faulty:
        step, largest = (layer.grid[1] - layer.grid[0]) / 255, max(abs(layer.low), abs(layer.high))
        if 0 < largest < FEW * step:
            smallest = f"2^{round(math.log2(step))}, the smallest scale that observers give" if _is_least(step) else ""
            return (
                f"its results, at most {largest:.2g}, are below the steps of their codes ({smallest or f'{step:.2g}'})"
            )
    return next(cures(layer), f"it leaves {layer.own or 0.0:.1f} dB of its results")


def _is_least(step: float) -> bool:
    """Whether a scale is a small power of two, as none is that observers find by themselves."""
    return step < 2.0**-8 and math.isclose(math.log2(step), round(math.log2(step)), abs_tol=1e-6)
