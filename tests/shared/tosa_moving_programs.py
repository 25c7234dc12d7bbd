"""Random TOSA programs that reduce or move what there is."""

from __future__ import annotations

import numpy as np
from draw import Draw
from tosa_building import Building, Program
from tosa_program_parts import Maker, codes


def reduction(code: str, dtype: str) -> Maker:
    def make(draw: Draw) -> Program:
        shape = draw.shape(1, 4, 6)
        bits = 32 if draw.integer(0, 3) == 0 else 28
        b = Building()
        x = b.input(codes(draw, shape, dtype, bits), dtype)
        return b.program(b.apply(code, x, axis=draw.integer(0, len(shape) - 1)))

    return make


def concat(dtype: str) -> Maker:
    def make(draw: Draw) -> Program:
        shape = draw.shape(1, 4, 5)
        axis = draw.integer(0, len(shape) - 1)
        shapes = [(*shape[:axis], draw.integer(1, 5), *shape[axis + 1 :]) for _ in range(draw.integer(1, 4))]
        b = Building()
        return b.program(b.apply("CONCAT", *(b.input(codes(draw, s, dtype), dtype) for s in shapes), axis=axis))

    return make


def pad(dtype: str) -> Maker:
    def make(draw: Draw) -> Program:
        shape = draw.shape(1, 4, 5)
        widths = [draw.integer(0, 3) for _ in range(2 * len(shape))]
        b = Building()
        x = b.input(codes(draw, shape, dtype), dtype)
        return b.program(b.apply("PAD", x, b.shape(widths), b.constant(codes(draw, (1,), dtype), dtype)))

    return make


def reshape(dtype: str) -> Maker:
    def make(draw: Draw) -> Program:
        shape = draw.shape(0, 4, 5)
        target = draw.rng.permutation([*shape, *[1] * draw.integer(0, 2)]).tolist()
        if len(target) > 1 and draw.coin():
            target[:2] = [target[0] * target[1]]
        b = Building()
        return b.program(b.apply("RESHAPE", b.input(codes(draw, shape, dtype), dtype), b.shape(target)))

    return make


def slice_(dtype: str) -> Maker:
    def make(draw: Draw) -> Program:
        shape = draw.shape(1, 4, 6)
        start = [draw.integer(0, n - 1) for n in shape]
        size = [draw.integer(1, n - s) for n, s in zip(shape, start, strict=True)]
        b = Building()
        return b.program(b.apply("SLICE", b.input(codes(draw, shape, dtype), dtype), b.shape(start), b.shape(size)))

    return make


def tile(dtype: str) -> Maker:
    def make(draw: Draw) -> Program:
        shape = draw.shape(1, 4, 4)
        b = Building()
        multiples = b.shape([draw.integer(1, 3) for _ in shape])
        return b.program(b.apply("TILE", b.input(codes(draw, shape, dtype), dtype), multiples))

    return make


def transpose(dtype: str) -> Maker:
    def make(draw: Draw) -> Program:
        shape = draw.shape(1, 5, 5)
        b = Building()
        perms = tuple(draw.rng.permutation(len(shape)).tolist())
        return b.program(b.apply("TRANSPOSE", b.input(codes(draw, shape, dtype), dtype), perms=perms))

    return make


def gather(dtype: str) -> Maker:
    def make(draw: Draw) -> Program:
        n, k, w, c = (draw.integer(1, 6) for _ in range(4))
        outside = draw.integer(0, 9) == 0
        indices = draw.rng.integers(-1 if outside else 0, k + outside, (n, w))
        b = Building()
        return b.program(b.apply("GATHER", b.input(codes(draw, (n, k, c), dtype), dtype), b.input(indices, "INT32")))

    return make


def scatter(dtype: str) -> Maker:
    def make(draw: Draw) -> Program:
        n, k, c = draw.integer(1, 4), draw.integer(1, 6), draw.integer(1, 4)
        w = draw.integer(1, k)
        indices = np.stack([draw.rng.permutation(k)[:w] for _ in range(n)])
        if draw.integer(0, 9) == 0:
            indices = draw.rng.integers(0, k, (n, w))
        b = Building()
        values, source = (b.input(codes(draw, (n, count, c), dtype), dtype) for count in (k, w))
        return b.program(b.apply("SCATTER", values, b.input(indices, "INT32"), source))

    return make
