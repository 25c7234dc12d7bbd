"""Programs whose lowering to TOSA is asked: arithmetic, tables, limits, moving, pools, products."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from lowering_graphs import IMAGE, OTHER, POSITIVE, Operation, Q, X, activation, constant, convolution

from npu_assay.conformance.programs.graph import Fill, Graph, Quant, Ref, Value

Z = Ref("z")
TO_COPY = "dim_order_ops._to_dim_order_copy.default"
COARSE = Quant(0.08, 1)
HALF = Quant(1 / 256, 0)
UNIT = Quant(1 / 120, 0)
DEEP = (1, 2, 3, 4, 5)


@dataclass(frozen=True)
class Case:
    """A graph and what to expect: `steps` codes of distance to torch, and whether the U55 can run it.

    `wide` says whether there is a 16-bit form, `u55_wide` whether the U55 can run that.
    """

    graph: Graph
    steps: int = 1
    u55: bool = True
    wide: bool = True
    u55_wide: bool = True
    wide_steps: int | None = None  # None: as for 8 bits


def integers(name: str, shape: Sequence[int], dtype: str = "int32", low: int = -9, high: int = 9) -> Value:
    """A model input of plain integers within low..high."""
    numbers = tuple(low + 7 * i % (high - low + 1) for i in range(math.prod(shape)))
    return Value(name, tuple(shape), None, Fill("list", values=tuple(map(float, numbers))), dtype=dtype)


def indices(name: str, shape: Sequence[int], size: int, is_constant: bool = False) -> Value:
    """Indices below `size`."""
    return replace(integers(name, shape, "int32", 0, size - 1), constant=is_constant)


def unary(name: str, shape: Sequence[int] = IMAGE, *args: Any, x: Quant = Q, y: Quant = Q, **more: Any) -> Operation:
    """An operator on x."""
    label = f"{name}_{'_'.join(map(str, args))}_{'x'.join(map(str, shape))}".replace(" ", "")
    op = f"aten.{name}" if "." in name else f"aten.{name}.default"
    return Operation(label, op, tuple(shape), args, y, x, **more)


def binary(name: str, x: Sequence[int], z: Value, y: Quant = COARSE, xq: Quant = Q) -> Operation:
    """An operator on x and another value."""
    label = f"{name}_{'x'.join(map(str, x))}_{'x'.join(map(str, z.shape))}{'_constant' * z.constant}"
    op = f"aten.{name}" if "." in name else f"aten.{name}.default"
    return Operation(label, op, tuple(x), (Ref(z.name),), y, xq, (z,))


def arithmetic() -> dict[str, Case]:
    """Sums, products, extrema, with and without broadcasting."""
    sizes = (IMAGE, (3, 1, 1), (5,), (1, 1, 4, 1))
    found = [
        binary(name, IMAGE, activation("z", size, OTHER)) for name in ("add.Tensor", "sub.Tensor") for size in sizes
    ]
    found += [
        binary("add.Tensor", (3, 5), activation("z", (2, 3, 5), OTHER)),
        binary("add.Tensor", DEEP, activation("z", DEEP, OTHER)),
    ]
    found += [binary(name, IMAGE, constant("z", (3, 1, 1), OTHER)) for name in ("add.Tensor", "mul.Tensor")]
    found += [binary("mul.Tensor", IMAGE, activation("z", size, HALF), Quant(0.002, 1)) for size in sizes]
    found += [
        binary(name, IMAGE, activation("z", size, OTHER), Q) for name in ("maximum", "minimum") for size in sizes[:2]
    ]
    found += [unary("add.Tensor", IMAGE, X, y=COARSE), unary("mul.Tensor", IMAGE, X, y=COARSE)]
    found += [unary(name, shape, y=OTHER) for name in ("abs", "neg") for shape in (IMAGE, (7,))] + [unary("neg")]
    low, high = activation("low", (3, 1, 1), OTHER), constant("high", (1,), OTHER)
    clamps = [
        unary("clamp.Tensor", IMAGE, Ref("low"), Ref("high"), more=(low, high)),
        unary("clamp.Tensor", IMAGE, None, Ref("high"), more=(high,)),
    ]
    return cases([*found, *clamps])


TABLES = {
    "acosh": Quant(0.01, -128),
    "asinh": Q,
    "atan": Q,
    "ceil": Q,
    "cos": UNIT,
    "cosh": COARSE,
    "elu": Q,
    "erf": UNIT,
    "exp": COARSE,
    "expm1": COARSE,
    "floor": Q,
    "gelu": Q,
    "hardsigmoid": UNIT,
    "hardswish": Q,
    "leaky_relu": Q,
    "log": Q,
    "log10": Q,
    "log1p": Q,
    "reciprocal": Q,
    "round": Q,
    "rsqrt": Q,
    "sigmoid": UNIT,
    "silu": Q,
    "sin": UNIT,
    "sinh": COARSE,
    "tan": COARSE,
    "tanh": UNIT,
    "celu": Q,
    "selu": Q,
    "sign": UNIT,
    "erfinv": Q,
}


def tables() -> dict[str, Case]:
    """Functions of one number."""
    found = [unary(name, y=quant) for name, quant in TABLES.items()]
    found += [unary(name, x=Quant(2 / 256, 0)) for name in ("acos", "asin")] + [unary("atanh", x=Quant(1.998 / 256, 0))]
    found += [unary("pow.Tensor_Scalar", IMAGE, 2.0, y=COARSE), unary("remainder.Scalar", IMAGE, 1.5)]
    found += [unary("leaky_relu", IMAGE, 0.2), unary("elu", (3, 5), 0.5), unary("sigmoid", (7,), y=UNIT)]
    found += [Operation("gelu_tanh", "aten.gelu.default", IMAGE, kwargs=(("approximate", "tanh"),))]
    # Between its entries, 128 codes apart, a 16-bit table is a straight line.
    steep = {
        "acosh",
        "log",
        "log10",
        "log1p",
        "reciprocal",
        "rsqrt",
        "tan",
        "ceil",
        "floor",
        "round",
        "sign",
        "remainder",
        "erfinv",
        "acos",
        "asin",
        "atanh",
    }
    made = {}
    for operation in found:
        is_steep = operation.op.split(".")[1] in steep
        made[operation.name] = Case(operation.graph(), 1, wide=not is_steep, wide_steps=8)
    divisor = constant("z", (1,), OTHER)
    more = [
        Operation(
            f"div_{mode}",
            "aten.div.Tensor_mode",
            IMAGE,
            (Z,),
            Quant(1.0),
            more=(divisor,),
            kwargs=(("rounding_mode", mode),),
        )
        for mode in ("floor", "trunc")
    ]
    more += [binary(name, IMAGE, divisor) for name in ("remainder.Tensor", "pow.Tensor_Tensor")]
    return made | {o.name: Case(o.graph(), wide=False) for o in more}


def limits() -> dict[str, Case]:
    """Activations that only limit."""
    found = [
        unary("relu", y=POSITIVE),
        unary("relu"),
        unary("hardtanh", IMAGE, 0.0, 6.0, y=POSITIVE),
        unary("hardtanh"),
    ]
    found += [unary("clamp", IMAGE, -1, 1), unary("clamp", IMAGE, 0, None), unary("clamp", (3, 5), None, 0.5)]
    found += [unary("clamp", IMAGE, 1.0, float("inf"))]
    return cases(found)


def movements() -> dict[str, Case]:
    """Operators that compute nothing."""
    z = activation("z", IMAGE)
    found = [
        Operation(f"cat_{dim}", "aten.cat.default", IMAGE, ((X, Z, X), dim), more=(z,), first=False)
        for dim in (0, 1, -1)
    ]
    found += [
        unary("slice_copy.Tensor", IMAGE, *args)
        for args in ((1, 1, 3), (-1, 2, 9), (3, -3, -1), (2, 0, 4, 2), (3, 1, 5, 3), (3, 0, 5, 2), (2, 1, 4, 9))
    ]
    found += [unary("select_copy.int", IMAGE, dim, index) for dim, index in ((1, 2), (-1, -2), (0, 0))]
    found += [
        Operation("split", "aten.split.Tensor", IMAGE, (2, 3), outputs=3),
        Operation("split_sizes", "aten.split_with_sizes.default", IMAGE, ((1, 2), 1), outputs=2),
    ]
    found += [
        unary("constant_pad_nd", IMAGE, *args)
        for args in (((1, 2),), ((1, 2, 3, 0, 0, 1, 1, 0), 0.0), ((0, 1, 2, 0), 1.5), ((-1, 2, 0, -1),))
    ]
    found += [unary("pad", IMAGE, (2, 1, 1, 0), mode) for mode in ("reflect", "replicate", "circular")] + [
        unary("pad", IMAGE, (2, 1, 1, 0))
    ]
    found += [
        unary("permute_copy", shape, order)
        for shape, order in (
            (IMAGE, (0, 2, 3, 1)),
            ((2, 3, 4, 5), (3, 2, 1, 0)),
            ((2, 3, 5), (1, 2, 0)),
            (DEEP, (0, 2, 1, 4, 3)),
        )
    ]
    found += [
        unary("view_copy", IMAGE, (2, 15, 2)),
        unary("view_copy", IMAGE, (-1,)),
        unary("squeeze.dims", (1, 3, 1, 5), (0, 2)),
        unary("unsqueeze", (2, 3), 1),
    ]
    found += [
        unary("expand_copy", (1, 3, 1, 5), (2, 3, 4, 5)),
        unary("expand_copy", (3, 1), (2, -1, 4)),
        unary("repeat", (2, 3), (2, 1, 3)),
    ]
    found += [
        unary("unfold_copy", IMAGE, 3, 3, 2),
        unary("unfold_copy", IMAGE, 1, 2, 1),
        unary("as_strided_copy", (4, 6), (2, 3), (3, 1)),
        unary("as_strided_copy", (4, 6), (2, 12), (12, 1)),
    ]
    made = cases(found, steps=0)
    made |= cases([unary("flip", IMAGE, dims) for dims in ((2,), (-1,), (1, 2), (1,))], steps=0)
    mixed = Operation(
        "cat_mixed", "aten.cat.default", IMAGE, ((X, Z), 1), more=(activation("z", IMAGE, OTHER),), first=False
    )
    return made | cases([mixed])


def pools() -> dict[str, Case]:
    """Windows over images, reductions, resizing."""
    avg, most, image = "avg_pool2d", "max_pool2d", (1, 3, 6, 8)
    found = [
        unary(avg, image, *args)
        for args in (
            ((2, 3), (2, 1)),
            ((2, 3),),
            ((3, 2), (1, 2), (1, 0)),
            ((3, 3), (2, 2), (1, 1), True),
            ((3, 2), (2, 2), (1, 1), False, False),
            ((3, 3), (2, 2), (1, 1), True, False),
            ((2, 2), (2, 2), (0, 0), False, True, 3),
            ((3, 3), (2, 2), (1, 1), True, True, 5),
        )
    ]
    found += [unary(avg, image[1:], (2, 3)), unary("avg_pool1d", (1, 3, 8), (3,), (2,), (1,))]
    found += [unary("_adaptive_avg_pool2d", image, size) for size in ((2, 4), (1, 1), (4, 3), (3, 5))]
    found += [
        unary("mean.dim", (2, 3, 4, 5), *args)
        for args in (((-1, -2), True), ((2, 3), False), ((1,), True), ((3,),), ((0, 1, 2, 3), True))
    ]
    found += [
        unary("sum.dim_IntList", (2, 3, 4, 5), *args, y=Quant(0.3, 2))
        for args in (((-1, -2), True), ((1,),), ((3, 0),))
    ]
    found += [unary("cumsum", (2, 3, 5), dim, y=COARSE) for dim in (0, 1, 2)]
    found.append(unary("cumsum", (3, 5, 2), 1, y=COARSE))
    made = cases(found)
    exact = [
        unary(most, image, *args)
        for args in (
            ((2, 3), (1, 2)),
            ((3, 2),),
            ((2, 3), (1, 2), (0, 1)),
            ((3, 3), (2, 2), (1, 1), (1, 1), True),
            ((2, 2), (1, 1), (0, 0), (2, 3)),
            ((2, 3), (1, 1), (1, 1), (2, 1)),
            ((3, 3), (1, 1), (1, 1), (3, 3)),
            ((2, 3), (1, 2), (0, 0), (3, 1)),
            ((1, 3), (2, 1), (0, 0), (2, 1)),
            ((2, 2), (3, 2), (0, 0), (5, 7)),
            ((2, 4), (2, 4)),
        )
    ]
    exact += [
        unary(most, (2, *image[1:]), (2, 2)),
        unary("amax", image, (1,)),
        unary("amax", image, (2, 3), True),
        unary("amin", (3, 5), (-1,)),
    ]
    exact += [unary("max_pool1d", (2, 3, 8), (3,), (2,), (1,))]
    made |= cases(exact, steps=0)
    up, near = "upsample_bilinear2d.vec", "upsample_nearest2d.vec"
    smooth = [
        unary(up, IMAGE, None, False, (2.0, 2.0)),
        unary(up, IMAGE, (8, 20), True, None),
        unary(up, IMAGE, (7, 3), False, None),
        unary(up, (1, 2, 16, 32), (1, 2), False, None),
    ]
    made |= {o.name: Case(o.graph(), u55=False) for o in smooth}
    made |= {
        o.name: Case(o.graph(), 0) for o in (unary(near, IMAGE, None, (2.0, 2.0)), unary(near, IMAGE, (16, 20), None))
    }
    return made | {
        o.name: Case(o.graph(), 0, u55=False)
        for o in (unary(near, IMAGE, None, (3.0, 1.5)), unary(near, IMAGE, (3, 7), None))
    }


def products() -> dict[str, Case]:
    """Convolutions, linear layers, matrices."""
    made = cases(
        [
            convolution("conv", (1, 3, 6, 7), (3, 2), 5),
            convolution("conv_strided", (2, 3, 6, 7), (3, 2), 5, (2, 1), (1, 0), (1, 2)),
            convolution("conv_cut", (1, 3, 7, 8), (2, 3), 5, (3, 3)),
            convolution("conv_no_bias", (1, 3, 6, 7), (1, 3), 4, (1, 2), (0, 1), bias=False),
            convolution("conv_per_tensor", (1, 3, 6, 7), (2, 3), 4, per_channel=False),
            convolution("conv_one_channel", (1, 1, 6, 7), (2, 3), 1),
            convolution("conv_depthwise", (1, 3, 6, 7), (3, 2), 3, (1, 2), (1, 1), groups=3),
            convolution("conv_multiplier", (1, 3, 6, 7), (3, 2), 6, groups=3),
            convolution("conv_groups", (1, 4, 6, 7), (3, 2), 6, groups=2),
            convolution("conv_1d", (2, 3, 9), (3,), 5, (2,), (1,), (2,)),
            convolution("conv_1d_depthwise", (1, 3, 9), (3,), 3, (1,), (2,), groups=3),
            convolution("conv_3d_flat", (1, 3, 4, 6, 7), (1, 3, 2), 5, (1, 2, 1), (0, 1, 0)),
            convolution("conv_planes", (2, 3, 5, 6, 7), (1, 3, 2), 4, (2, 1, 2)),
            convolution("conv_planes_one", (1, 3, 4, 6, 7), (1, 3, 2), 4, (4, 3, 1)),
            convolution("conv_planes_depthwise", (1, 3, 5, 6, 7), (1, 3, 2), 3, (2, 1, 1), groups=3),
            convolution("conv_transposed", (1, 3, 4, 5), (3, 4), 4, (2, 2), (1, 2), (), 1, True),
            convolution("conv_transposed_once", (1, 3, 4, 5), (3, 4), 4, (2,), (1,), (), 1, True),
            convolution("conv_transposed_extra", (1, 3, 4, 5), (2, 3), 4, (2, 2), (0, 1), (), 1, True, (1, 1)),
            convolution(
                "conv_transposed_groups",
                (1, 4, 4, 5),
                (2, 3),
                6,
                (1, 1),
                (0, 1),
                (),
                2,
                True,
                per_channel=False,
                bias=False,
            ),
        ]
    )
    for name in (name for name in made if name.startswith("conv_transposed")):
        made[name] = replace(made[name], u55_wide=False)
    made["conv_3d"] = Case(convolution("", (1, 3, 4, 6, 7), (2, 3, 2), 5, (1, 2, 1), (1, 1, 0)).graph(), u55=False)
    made["conv_transposed_3"] = Case(
        convolution("", (1, 3, 4, 5), (3, 4), 4, (2, 3), (1, 2), (), 1, True).graph(), u55=False
    )
    w = constant("w", (4, 7), Quant(2.0**-8, 0, -127))
    per_channel = replace(w, quant=Quant(tuple(2.0**-8 * (1 + i / 4) for i in range(4)), 0, -127, axis=0))
    made |= cases(
        [
            Operation(f"linear_{len(shape)}_{i}", "aten.linear.default", shape, (Ref("w"),), more=(weights,))
            for i, weights in enumerate((w, per_channel))
            for shape in ((3, 7), (2, 3, 7), (7,))
        ]
    )
    products = [
        binary("bmm", (2, 4, 5), activation("z", (2, 5, 3), OTHER), COARSE),
        binary("mm", (3, 7), activation("z", (7, 5), OTHER), COARSE),
        binary("mm", (3, 7), constant("z", (7, 5), OTHER), COARSE),
    ]
    return made | {o.name: Case(o.graph(), u55_wide=False) for o in products}


def cases(found: Sequence[Operation], steps: int = 1) -> dict[str, Case]:
    """The operations by name, alone and, on images, behind a convolution that makes them channels-last."""
    alone = {operation.name: Case(operation.graph(), steps) for operation in found}
    images = [operation for operation in found if 3 <= len(operation.shape) <= 4]
    return alone | {f"{o.name}/behind_conv": Case(o.graph(True), steps) for o in images}


def wide(quant: Quant) -> Quant:
    """The same numbers, nearly, in symmetric 16-bit codes."""
    assert isinstance(quant.scale, float)
    return Quant(quant.scale / 256, 0, -(2**15) + 1, 2**15 - 1, None, "int16")
