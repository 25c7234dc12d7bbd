"""Matrix products on XNNPACK, with their weights in every form: what is delegated gives torch's numbers.

addmm and mm are no rows of the table, as flows for XNNPACK keep linear layers; programs that have them are delegated.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import pytest
import torch
from xnnpack_graphs import Q, coded, graph, program, real, step

from npu_assay.conformance.judge.integer_golden import affine
from npu_assay.conformance.programs.build import model_inputs
from npu_assay.conformance.programs.graph import Graph, Quant
from npu_assay.partitioners.exir import run_program, to_backend
from npu_assay.partitioners.exir.ops import target_name
from npu_assay.partitioners.xnnpack import XnnpackBackend, XnnpackPartitioner, XnnpackRuntime

OPERATORS = ("linear", "mm", "addmm")
FORMS = ("stored", "permuted", "permuted twice", "permuted for two", "kept in order", "computed")
ONE_CODE = affine(Q).scale  # of results: torch rounds the sums of products in another order
WEIGHT = Quant(0.01, 0, -127)
ROWS = replace(WEIGHT, scale=(0.01, 0.02, 0.03, 0.04))
SPELLED: dict[str, tuple[Any, ...]] = {"linear": ("x", "w"), "mm": ("x", "w"), "addmm": ("b", "x", "w")}


def model(op: str, form: str, quant: Quant | None, bias: bool) -> Graph:
    """x of 3 rows times weights of 4 rows and columns, with an activation; `quant` is that of the stored weights."""
    x = real("x", 3, 4) if quant is None else coded("x", 3, 4)
    computed, result = form == "computed", None if quant is None else Q
    stored = real("w", 4, 4, constant=not computed) if quant is None else coded("w", 4, 4, quant=quant, constant=True)
    values, steps, read = [x, stored], [], "w"
    orders = {"permuted": [(1, 0)], "permuted twice": [(1, 0), (-1, -2)], "kept in order": [(0, 1)]}
    for number, dims in enumerate(orders.get(form.removesuffix(" for two"), [])):
        steps.append(step(f"p{number}", "permute_copy", read, dims))
        read = f"p{number}"
    names = [read if name == "w" else name for name in SPELLED[op]]
    if bias or op == "addmm":
        values.append(real("b", 4, constant=True))
        names += ["b"] if op == "linear" else []
    steps.append(step("y", op, *names, quant=result))
    if form == "permuted for two":
        return graph(values, [*steps, step("z", "mm", "x", read, quant=result)], "y", "z")
    return graph(values, [*steps, step("z", "relu", "y", quant=result)])


def per_channel(op: str, form: str) -> Quant:
    """Scales along the axis of the stored weights that runs over outputs."""
    outputs_first = (op == "linear") != (form in ("permuted", "permuted for two"))
    return replace(ROWS, axis=0 if outputs_first else 1)


KINDS = ("numbers", "codes", "codes by channel")
CASES = [(*c, k) for c in product(OPERATORS, FORMS) for k in (KINDS[:1] if c[1] == "computed" else KINDS)]


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(("op", "form", "kind"), CASES)
def test_numbers_are_those_of_torch(op: str, form: str, kind: str, bias: bool) -> None:
    quant = {"numbers": None, "codes": WEIGHT, "codes by channel": per_channel(op, form)}[kind]
    given = model(op, form, quant, bias)
    inputs = model_inputs(given)
    made = to_backend(program(given), XnnpackPartitioner(), details={"XnnpackBackend": XnnpackBackend})
    found = run_program(made, list(inputs), {"XnnpackBackend": XnnpackRuntime()})
    for one, other in zip(found, run_program(program(given), list(inputs)), strict=True):
        assert isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor)
        assert torch.allclose(one, other, rtol=1e-5, atol=1e-5 if quant is None else ONE_CODE + 1e-5)
    left = {target_name(node.target) for node in made.graph.nodes if node.op == "call_function"}
    if op != "linear" and form in ("stored", "permuted"):
        assert f"aten.{op}.default" not in left
