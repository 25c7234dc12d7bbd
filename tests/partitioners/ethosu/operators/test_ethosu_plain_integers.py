"""Integers that stand for themselves, given to every operator of Ethos-U: what is delegated compiles."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

import pytest
import torch
from ethosu_graphs import U55, U85, Builder, application, partitioned
from torch import fx

from npu_assay.partitioners.ethosu.compile_spec import EthosUCompileSpec
from npu_assay.partitioners.ethosu.operators import OPERATORS
from npu_assay.partitioners.ethosu.partitioner import EthosUPartitioner
from npu_assay.partitioners.exir import to_backend

IMAGE = (1, 4, 6, 6)
COPY = "dim_order_ops._to_dim_order_copy.default"
Given = Callable[..., fx.Node]
FORMS: dict[str, Callable[[Given], tuple[Any, ...]]] = {
    "one": lambda x: (x(*IMAGE),),
    "dimension": lambda x: (x(2, 3), 1),
    "dimensions": lambda x: (x(2, 3), [1]),
    "range": lambda x: (x(2, 3), 1, 0, 2),
    "two": lambda x: (x(2, 3), x(2, 3)),
    "three": lambda x: (x(2, 3), x(2, 3), x(2, 3)),
    "list": lambda x: ([x(2, 3), x(2, 3)], 1),
    "matrices": lambda x: (x(2, 3), x(3, 5)),
    "batches": lambda x: (x(2, 2, 3), x(2, 3, 5)),
    "weights": lambda x: (x(2, 3), x(5, 3)),
    "windows": lambda x: (x(*IMAGE), [2, 2], [2, 2]),
    "filters": lambda x: (x(*IMAGE), x(4, 4, 2, 2), None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1),
    "sizes": lambda x: (x(*IMAGE), [2, 2]),
    "larger": lambda x: (x(*IMAGE), [12, 12], None),
    "larger, corners": lambda x: (x(*IMAGE), [12, 12], False, None),
    "borders": lambda x: (x(*IMAGE), [1, 1, 1, 1], "reflect"),
}
"""Arguments of one operator or another."""
TYPED = ("aten.sum.dim_IntList", "aten.cumsum.default", "aten.mean.dim")
"""Their result is of 64 bits unless a type is given."""


def programs(dtype: torch.dtype) -> list[tuple[str, Builder, fx.Node]]:
    """Every operator with every form of arguments that torch takes."""
    found = []
    for name, row in OPERATORS.items():
        for form in FORMS.values() if row.rules is not None and name.startswith("aten.") else ():
            builder = Builder()
            arguments = form(lambda *sizes, builder=builder: builder.integers(*sizes, dtype=dtype))
            made = application(builder, name, arguments, **({"dtype": torch.int32} if name in TYPED else {}))
            if made is not None:
                found.append((name, builder, made))
    return found


@pytest.mark.parametrize("target", [U55, U85])
@pytest.mark.parametrize("dtype", [torch.int8, torch.int16, torch.int32], ids=str)
def test_what_is_delegated_compiles(dtype: torch.dtype, target: str) -> None:
    delegated = set()
    for name, builder, made in programs(dtype):
        if not isinstance(made.meta["val"], torch.Tensor):
            continue
        program = builder.program(made)
        if partitioned(program, EthosUPartitioner(EthosUCompileSpec(target))).tags:
            to_backend(program, EthosUPartitioner(EthosUCompileSpec(target)))
            delegated.add(name)
    assert {"aten.add.Tensor", "aten.cat.default", "aten.neg.default"} <= delegated
    assert delegated.isdisjoint({"aten.mm.default", "aten.convolution.default", "aten.avg_pool2d.default"})


def of_64_bits() -> list[tuple[str, Builder, fx.Node]]:
    """Every operator that makes 64 bits of integers of 32, or of constants of 64."""
    found = []
    for name, form in product([each for each in OPERATORS if each.startswith("aten.")], FORMS.values()):
        for kind in ("integers", "constants"):
            b = Builder()
            given = {"integers": b.integers, "constants": partial(_zeros, b)}[kind]
            made = application(b, name, form(given))
            if made is not None and getattr(made.meta["val"], "dtype", None) == torch.int64:
                found.append((name, b, made))
    return found


def _zeros(b: Builder, *sizes: int) -> fx.Node:
    return b.raw_constant(torch.zeros(sizes, dtype=torch.int64))


def test_64_bits_stay_64_bits_though_everybody_takes_32() -> None:
    """But for indices of largest numbers; a reason names the operator itself."""
    asked = set()
    for name, builder, made in of_64_bits():
        verdict = partitioned(
            builder.program(builder.call(COPY, made, dtype=torch.int32)), EthosUPartitioner(EthosUCompileSpec(U85))
        )
        own = [each.found for each in verdict.partitioner.rejections if each.node == made.name]
        if OPERATORS[name].rules is not None and name != "aten.argmax.default":
            assert f"{made.name} is int64" in own, name
            asked.add(name)
    assert {"aten.cat.default", "aten.sum.dim_IntList", "aten.add.Tensor"} <= asked
