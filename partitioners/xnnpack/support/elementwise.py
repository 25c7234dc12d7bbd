"""Rules of arithmetic and of activation functions."""

from __future__ import annotations

import math

import torch
from torch import fx

from npu_assay.partitioners.exir.nodes import argument, operand, rank
from npu_assay.partitioners.exir.qdq import qparams
from npu_assay.partitioners.exir.rules import rule
from npu_assay.partitioners.xnnpack.site import Rule, Site

LEAST_SCALE_RATIO = 2.0**-10
SCALE_RATIO_LIMIT = 256.0
LARGEST = torch.finfo(torch.float32).max


@rule("alpha")
def alpha(node: fx.Node, site: Site) -> str | None:
    """alpha must be 1"""
    found = node.kwargs.get("alpha", 1)
    return None if isinstance(found, (int, float)) and math.isclose(found, 1, rel_tol=1e-9) else f"alpha = {found}"


@rule("tensor_operands")
def tensor_operands(node: fx.Node, site: Site) -> str | None:
    """both operands must be tensors"""
    numbers = [found for found in node.args[:2] if not isinstance(found, fx.Node)]
    return f"operand {numbers[0]}" if numbers else None


@rule("add_scale_ratio")
def add_scale_ratio(node: fx.Node, site: Site) -> str | None:
    """the larger of the input scales divided by the output scale must be at least 0.0009765625 and below 256"""
    if site.static is None:
        return None
    after = qparams(site.static.output)
    before = [params for params in map(qparams, site.static.inputs) if params is not None]
    if after is None or after.scale32 == 0:
        return None
    scales = torch.tensor([params.scale32 for params in before], dtype=torch.float32)
    ratio = float((scales / torch.tensor(after.scale32, dtype=torch.float32)).max())
    return None if LEAST_SCALE_RATIO <= ratio < SCALE_RATIO_LIMIT else f"ratio {ratio:.9g}"


@rule("elu_scales")
def elu_scales(node: fx.Node, site: Site) -> str | None:
    """scale and input_scale must be 1"""
    found = (argument(node, 2, "scale", 1), argument(node, 3, "input_scale", 1))
    return None if found == (1, 1) else f"scale = {found[0]}, input_scale = {found[1]}"


@rule("approximate")
def approximate(node: fx.Node, site: Site) -> str | None:
    """approximate must be 'none': only the exact form is computed"""
    found = argument(node, 1, "approximate", "none")
    return None if found == "none" else f"approximate = {found!r}"


def float32_number(name: str, position: int, left_out: float | None, infinite: bool = False) -> Rule:
    """The rule on an argument that XNNPACK keeps as a float32; `infinite`: it may be so, or left out."""

    def check(node: fx.Node, site: Site) -> str | None:
        found = argument(node, position, name, left_out)
        if infinite and (found is None or math.isinf(found)):
            return None
        return None if abs(found) <= LARGEST else f"{name} = {found}"

    kind = "float32 number, infinity included" if infinite else "finite float32 number"
    return Rule("float32_number", f"{name} must be a {kind}", check)


def clamp_limits(names: tuple[str, str]) -> tuple[Rule, Rule]:
    """The rules on the limits of a clamp."""
    low, high = (float32_number(name, position, None, infinite=True) for position, name in enumerate(names, 1))
    return low, high


limits_of_hardtanh = clamp_limits(("min_val", "max_val"))


@rule("exponent")
def exponent(node: fx.Node, site: Site) -> str | None:
    """the exponent must be 2"""
    found = argument(node, 1, "exponent")
    return None if found == 2 else f"exponent {found}"


@rule("last_dim")
def last_dim(node: fx.Node, site: Site) -> str | None:
    """the dimension must be the last one"""
    found, dims = argument(node, 1, "dim"), rank(operand(node))
    return None if found in (-1, dims - 1) else f"dimension {found} of {dims}"


@rule("static_weights")
def constant_slopes(node: fx.Node, site: Site) -> str | None:
    """weights and bias must be constants"""
    found = operand(node, 1)
    return None if site.program.is_constant(found) else f"slopes {found} are computed"
