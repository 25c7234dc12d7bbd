"""Graphs of one operator for the Ethos-U compiler: every operator that it lowers, in 8 and in 16 bits, and on integers.

Sizes are odd and differ between height and width, so that exchanged axes show.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from lowering_graphs import IMAGE, OTHER, Operation, Q, X, activation, constant, graph
from tosa_graph_families import (
    COARSE,
    TO_COPY,
    Case,
    Z,
    arithmetic,
    indices,
    integers,
    limits,
    movements,
    pools,
    products,
    tables,
    unary,
    wide,
)

from npu_assay.conformance.programs.graph import Fill, Graph, Quant, Ref, Step


def choices() -> dict[str, Case]:
    """Comparisons, selection and look-ups between quantized numbers: not for the U55."""
    z, flags = activation("z", (3, 1, 1), OTHER), Ref("flags")
    compared = [Step("flags", f"aten.{name}.Tensor", (X, Z)) for name in ("eq", "ge", "gt", "le", "lt", "ne")]
    compared += [Step("flags", f"aten.{name}.Scalar", (X, 0.5)) for name in ("eq", "ge", "gt", "le", "lt", "ne")]
    x, made = activation("x", IMAGE), {}
    for step in compared:
        made[step.op] = Case(graph((x, z), [step]), 0, u55=False)
    gt = compared[2]
    made["where"] = Case(graph((x, z), [gt, Step("y", "aten.where.self", (flags, X, Z), (), COARSE)]), u55=False)
    made["masked_fill"] = Case(
        graph((x, z), [gt, Step("y", "aten.masked_fill.Scalar", (X, flags, 0.75), (), Q)]), 0, u55=False
    )
    for name in ("and", "or", "xor"):
        both = [gt, Step("y", f"aten.logical_{name}.default", (flags, flags))]
        made[f"logical_{name}"] = Case(graph((x, z), both), 0, u55=False)
        both = [gt, Step("y", f"aten.bitwise_{name}.Tensor", (flags, flags))]
        made[f"bitwise_{name}_bool"] = Case(graph((x, z), both), 0, u55=False)
    made["logical_not"] = Case(graph((x, z), [gt, Step("y", "aten.logical_not.default", (flags,))]), 0, u55=False)
    for name, args in (("any.default", ()), ("any.dim", (1,)), ("any.dims", ((1, -1), True))):
        made[name] = Case(graph((x, z), [gt, Step("y", f"aten.{name}", (flags, *args))]), 0, u55=False)
    index, rows = indices("i", (4,), 3), indices("j", (2, 1), 4)
    found = [unary("index_select", IMAGE, dim, Ref("i"), more=(index,)) for dim in (0, 1, 3)]
    found[0] = unary("index_select", IMAGE, 0, Ref("i"), more=(indices("i", (4,), 1),))
    found += [
        unary("index.Tensor", (3, 4, 5), (Ref("i"), Ref("j")), more=(index, rows)),
        unary("index.Tensor", (3, 4), (Ref("i"),), more=(index,)),
    ]
    found += [
        Operation(
            "index_constant",
            "aten.index.Tensor",
            (3, 4, 5),
            ((Ref("i"), Ref("j")),),
            more=(replace(index, constant=True), replace(rows, constant=True)),
        )
    ]
    found += [Operation("gather_2", "aten.gather.default", (2, 5), (1, Ref("k")), more=(indices("k", (2, 3), 5),))]
    found += [
        Operation("gather_3", "aten.gather.default", (2, 5, 3), (1, Ref("k")), more=(indices("k", (2, 4, 3), 5),))
    ]
    put = activation("v", (2, 5), Q)
    place = replace(indices("i", (2,), 3), fill=Fill("list", values=(2.0, 0.0)))
    for name, values in (("index_put", put), ("index_put_one_row", activation("v", (5,), Q))):
        found += [Operation(name, "aten.index_put.default", (3, 5), ((Ref("i"),), Ref("v")), more=(place, values))]
    made |= {o.name: Case(o.graph(), 0, u55=False) for o in found}
    weights = constant("w", (6, 4), Q)
    looked = Step("y", "aten.embedding.default", (Ref("w"), Ref("i")), (), Q)
    made["embedding"] = Case(graph((weights, indices("i", (2, 3), 6)), [looked]), 0, u55=False)
    return made


def plain() -> dict[str, Case]:
    """Integers that stand for themselves."""
    a, b = integers("x", IMAGE), integers("z", (3, 1, 1))
    made, shifts = {}, integers("z", (3, 1, 1), "int32", 0, 5)
    for name in ("add.Tensor", "sub.Tensor", "mul.Tensor", "maximum.default", "minimum.default"):
        made[f"int32_{name}"] = Case(graph((a, b), [Step("y", f"aten.{name}", (X, Z))]), 0, wide=False)
    for name in ("abs", "neg", "relu"):
        made[f"int32_{name}"] = Case(graph((a,), [Step("y", f"aten.{name}.default", (X,))]), 0, wide=False)
    for name in ("bitwise_left_shift", "bitwise_right_shift"):
        made[name] = Case(graph((a, shifts), [Step("y", f"aten.{name}.Tensor", (X, Z))]), 0, wide=False)
    for name in ("__lshift__", "__rshift__"):
        made[name] = Case(graph((a,), [Step("y", f"aten.{name}.Scalar", (X, 2))]), 0, wide=False)
    for name in ("permute_copy", "constant_pad_nd"):
        args = ((0, 2, 3, 1),) if name == "permute_copy" else ((1, 2), 3)
        made[f"int32_{name}"] = Case(graph((a,), [Step("y", f"aten.{name}.default", (X, *args))]), 0, wide=False)
    return made


def bits() -> dict[str, Case]:
    """Bits, comparisons and conversions of integers of every type."""
    made = {}
    for dtype in ("int8", "int16", "int32"):
        pair = (integers("x", IMAGE, dtype), integers("z", IMAGE, dtype, -4, 4))
        for name in ("and", "or", "xor"):
            made[f"{dtype}_bitwise_{name}"] = Case(
                graph(pair, [Step("y", f"aten.bitwise_{name}.Tensor", (X, Z))]), 0, u55=False, wide=False
            )
        made[f"{dtype}_bitwise_not"] = Case(
            graph(pair[:1], [Step("y", "aten.bitwise_not.default", (X,))]), 0, u55=False, wide=False
        )
        for name in ("and", "or", "xor"):
            by_number = [Step("y", f"aten.bitwise_{name}.Scalar", (X, 3))]
            made[f"{dtype}_bitwise_{name}_scalar"] = Case(graph(pair[:1], by_number), 0, u55=False, wide=False)
        for name in ("eq.Tensor", "lt.Tensor"):
            made[f"{dtype}_{name}"] = Case(graph(pair, [Step("y", f"aten.{name}", (X, Z))]), 0, u55=False, wide=False)
        made[f"{dtype}_cat"] = Case(graph(pair, [Step("y", "aten.cat.default", ((X, Z), 1))]), 0, wide=False)
        made[f"{dtype}_view"] = Case(
            graph(pair[:1], [Step("y", "aten.view_copy.default", (X, (5, 12)))]), 0, wide=False
        )
        made[f"{dtype}_gt_scalar"] = Case(
            graph(pair[:1], [Step("y", "aten.gt.Scalar", (X, 1.5))]), 0, u55=False, wide=False
        )
        for wanted in ("int8", "int16", "int32"):
            cast = Step("y", TO_COPY, (X,), (("dtype", wanted),))
            made[f"{dtype}_to_{wanted}"] = Case(graph(pair[:1], [cast]), 0, wide=False)
    return made


def constants() -> dict[str, Case]:
    """Operators of numbers only, added to x; copies; arguments of maxima; conversions to numbers."""
    made = {}
    makers = {
        "full": Step("c", "aten.full.default", ((1, 3, 1, 1), 1.5), (), Q),
        "full_like": Step("c", "aten.full_like.default", (X, -0.75), (), Q),
        "scalar_tensor": Step("c", "aten.scalar_tensor.default", (0.5,), (), Q),
        "linspace": Step("c", "aten.linspace.default", (-1.0, 1.0, 5), (), Q),
        "arange": Step("c", "aten.arange.start_step", (0.0, 2.5, 0.5), (), Q),
        "eye": Step("c", "aten.eye.default", (5,), (), Q),
    }
    x, total = activation("x", (1, 3, 5, 5)), Step("y", "aten.add.Tensor", (X, Ref("c")), (), COARSE)
    for name, maker in makers.items():
        made[name] = Case(graph((x,), [maker, total]))
    codes = integers("x", (1, 3, 4, 5), "int8", -128, 127)
    whole = (("dtype", "int32"),)
    for dim in (1, -1):
        best = Step("best", "aten.argmax.default", (X, dim))
        cast = Step("y", TO_COPY, (Ref("best"),), whole)
        made[f"argmax_{dim}"] = Case(graph((codes,), [best, cast]), 0, wide=False)
    number = Step("y", TO_COPY, (X,), (("dtype", "float32"),), Quant(1.0))
    made["to_float"] = Case(graph((codes,), [number]), 0, wide=False)
    made["copy"] = Case(unary("copy", IMAGE, Z, more=(activation("z", (4, 1)),)).graph(), 0)
    for name in ("alias_copy", "detach_copy", "clone"):
        moved = [
            Step("same", f"aten.{name}.default", (X,), (), Q),
            Step("y", "aten.neg.default", (Ref("same"),), (), Q),
        ]
        made[name] = Case(graph((x,), moved))
    mask = replace(integers("m", (3, 4), "int32", 0, 1), quant=None)
    gt = Step("flags", "aten.gt.Scalar", (Ref("m"), 0))
    put = Step("y", "aten.index_put.default", (X, (Ref("flags"),), Z), (), Q)
    made["index_put_mask"] = Case(
        graph((activation("x", (3, 4)), constant("z", (1,), Q), mask), [gt, put]), 0, u55=False
    )
    made["split_copy"] = Case(graph((x,), [Step("y", "aten.split_copy.Tensor", (X, 2, -1), (), Q, 3)]), 0)
    made["squeeze_copy"] = Case(graph((x,), [Step("y", "aten.squeeze_copy.dim", (X, 0), (), Q)]), 0)
    return made


CASES: Mapping[str, Case] = {
    **arithmetic(),
    **tables(),
    **limits(),
    **movements(),
    **pools(),
    **products(),
    **choices(),
    **constants(),
    **plain(),
    **bits(),
}


def widened(source: Graph) -> Graph:
    """The graph with 16-bit activations: 256 times finer scales, zero points 0. Weights keep 8 bits."""
    filters = {ref.name for step in source.steps for ref in _filters(step)}
    values = []
    for value in source.values:
        if value.quant is None or value.name in filters:
            values.append(value)
        elif value.quant.dtype == "int32" and isinstance(value.quant.scale, tuple):
            values.append(replace(value, quant=replace(value.quant, scale=tuple(s / 256 for s in value.quant.scale))))
        elif value.quant.dtype == "int32" and isinstance(value.quant.scale, float):
            values.append(replace(value, quant=replace(value.quant, scale=value.quant.scale / 256)))
        else:
            values.append(replace(value, quant=wide(value.quant)))
    steps = [step if step.quant is None else replace(step, quant=wide(step.quant)) for step in source.steps]
    return Graph(tuple(values), tuple(steps), source.outputs)


def _filters(step: Step) -> list[Ref]:
    product = step.op in ("aten.convolution.default", "aten.linear.default")
    return [step.args[1]] if product else []
