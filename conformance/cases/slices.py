"""aten.slice_copy.Tensor, and the splits, which are slices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from conformance.cases.make import (
    SUBJECT,
    Draft,
    Use,
    accepted,
    behind_abs,
    behind_conv,
    label,
    limit,
    model,
    outside,
    placed,
    quant,
    silent,
    sizes_of,
    step,
    use,
)
from conformance.cases.shared import contexts, movement, same_qparams
from conformance.graph import Graph, Ref, Step

SLICE = "aten.slice_copy.Tensor"
END = 2**63 - 1  # "to the end", as torch exports x[:, 2:]
Shape = tuple[int, ...]


def slice_(shape: Shape, *rest: object) -> Use:
    """slice_copy(x, dim, start, end, step)."""
    return use(SLICE, shape, *rest)


def slice_cases() -> list[Draft]:
    """aten.slice_copy.Tensor."""
    u = slice_((1, 5, 8), 2, 1, 6)
    return [
        *_slice_steps(),
        *_slice_ranges(),
        *_slicesizes_of(),
        *_slice_dims(),
        *same_qparams(u),
        *contexts(u),
        placed("behind_abs", model(u, behind_abs)),
        *movement(u),
        *movement(slice_((1, 16, 3, 5), 1, 3, 9), behind_conv, label="_channels_first")[:8],
    ]


def _slice_steps() -> list[Draft]:
    return [
        limit("step", "default", model(slice_((5, 8), 1, 1, 6))),
        limit("step", "1", model(slice_((5, 8), 1, 1, 6, 1))),
        limit("step", "1_by_name", model(use(SLICE, (5, 8), 1, start=1, end=6, step=1))),
        *(outside("step", f"{n}", model(slice_((5, 8), 1, 0, 7, n))) for n in (2, 3, 7)),
        outside("step", "2_to_the_end", model(slice_((5, 8), 1, 0, END, 2))),
    ]


def _slice_ranges() -> list[Draft]:
    """Negative positions count from the end in torch; the NPU does not do that. Past the end is clipped."""
    code = "non_negative_range"
    past = ((-5, 7), (-8, 5), (0, -1), (1, -2), (-3, -1), (-3, END))
    fits = ((0, 1), (0, 7), (7, 8), (3, 8), (3, 9), (3, END))
    return [
        *(limit(code, f"{label(a)}_to_{_end(b)}", model(slice_((5, 8), 1, a, b))) for a, b in fits),
        *(outside(code, f"{label(a)}_to_{_end(b)}", model(slice_((5, 8), 1, a, b))) for a, b in past),
        silent(code, "start_none", model(slice_((5, 8), 1, None, 5))),
        silent(code, "end_none", model(slice_((5, 8), 1, 3, None))),
        silent(code, "end_left_out", model(slice_((5, 8), 1, 3))),
    ]


def _end(end: int) -> str:
    return "end" if end == END else label(end)


def _slicesizes_of() -> list[Draft]:
    code = "sliced_dim_multiple_of"
    fits = ((2, 8), (2, 16), (8,), (3, 1, 24))
    past = ((2, 7), (2, 9), (2, 4), (9,), (8, 12), (8, 8, 7))
    return [
        *(limit(code, sizes_of(s), model(slice_(s, len(s) - 1, 0, 3))) for s in fits),
        *(outside(code, sizes_of(s), model(slice_(s, len(s) - 1, 0, 3))) for s in past),
        outside(code, "channels_first_9", model(slice_((1, 9, 4, 6), 1, 0, 3), behind_conv)),
        limit(code, "channels_first_8", model(slice_((1, 8, 4, 6), 1, 0, 3), behind_conv)),
    ]


def _slice_dims() -> list[Draft]:
    """The dimension changes places with the last one, which the NPU can do only past dimensions of size 1."""
    code = "transposition"
    fits: Sequence[tuple[Shape, int]] = (
        ((2, 8), 1),
        ((2, 8), -1),
        ((8, 1), 0),
        ((8, 1), -2),
        ((1, 8, 1), 1),
        ((3, 8, 1), 1),
        ((8, 1, 1), 0),
        ((1, 3, 5, 8), -1),
        ((1, 3, 8, 1), 2),
    )
    past: Sequence[tuple[Shape, int]] = (
        ((8, 8), 0),
        ((8, 3), -2),
        ((1, 8, 8), 1),
        ((8, 3, 1), 0),
        ((1, 8, 8, 8), 1),
        ((1, 8, 8, 8), 2),
        ((1, 8, 3, 5), -3),
    )
    return [
        *(limit(code, f"{sizes_of(s)}_dim_{label(d)}", model(slice_(s, d, 1, 5))) for s, d in fits),
        *(outside(code, f"{sizes_of(s)}_dim_{label(d)}", model(slice_(s, d, 1, 5))) for s, d in past),
        *(limit(code, f"channels_first_dim_{label(d)}", _sliced_behind_conv(d)) for d in (1, -3)),
        *(outside(code, f"channels_first_dim_{label(d)}", _sliced_behind_conv(d)) for d in (2, 3, -1, -2)),
    ]


def _sliced_behind_conv(dim: int) -> Graph:
    return model(slice_((1, 16, 8, 8), dim, 1, 5), behind_conv)


# ------------------------------------------------------------------------------------ splits


def split_use(op: str, shape: Shape, sizes: Shape, dim: int | None) -> Use:
    """A split into chunks of these sizes; `split.Tensor` takes the size of all but the last."""
    size = sizes[0] if op == "aten.split.Tensor" else sizes
    return use(op, shape, size, *(() if dim is None else (dim,)), outputs=len(sizes))


def split_cases(op: str) -> list[Draft]:
    """aten.split.Tensor, aten.split.default, aten.split_with_sizes.default: one slice per chunk."""
    even = op == "aten.split.Tensor"
    chunks = ((4, 4), (3, 3, 2), (7, 1), (1,) * 8) if even else ((4, 4), (3, 5), (1, 7), (2, 3, 3))
    u = split_use(op, (1, 5, 8), chunks[1], 2)
    return [
        *_splitsizes_of(op),
        *_split_dims(op),
        *(accepted(f"chunks_{label(c)}", model(split_use(op, (2, 3, 8), c, -1))) for c in chunks),
        *same_qparams(u),
        *contexts(u),
        placed("behind_abs", model(u, behind_abs)),
        placed("one_chunk_used", replace(model(u), outputs=(Ref(SUBJECT, 1),))),
        placed("behind_conv_channels", model(split_use(op, (1, 8, 4, 6), (4, 4), 1), behind_conv)),
        placed("chunks_into_add", _chunks_into_add(op)),
        *movement(u),
    ]


def _chunks_into_add(op: str) -> Graph:
    u = split_use(op, (2, 3, 8), (4, 4), 2)
    total = Step("sum", "aten.add.Tensor", (Ref(SUBJECT, 0), Ref(SUBJECT, 1)), (), quant(0.1, 3))
    return Graph(u.values, (step(u), total), (Ref("sum"),))


def _splitsizes_of(op: str) -> list[Draft]:
    code = "sliced_dim_multiple_of"
    fits: Sequence[tuple[Shape, Shape]] = (((2, 8), (4, 4)), ((2, 16), (8, 8)), ((2, 8), (5, 3)), ((2, 24), (12, 12)))
    past: Sequence[tuple[Shape, Shape]] = (((2, 7), (4, 3)), ((2, 9), (5, 4)), ((2, 4), (2, 2)), ((2, 12), (6, 6)))
    return [
        *(limit(code, f"{sizes_of(s)}_into_{label(c)}", model(split_use(op, s, c, 1))) for s, c in fits),
        *(outside(code, f"{sizes_of(s)}_into_{label(c)}", model(split_use(op, s, c, 1))) for s, c in past),
        outside(code, "channels_first_9", model(split_use(op, (1, 9, 4, 6), (5, 4), 1), behind_conv)),
    ]


def _split_dims(op: str) -> list[Draft]:
    code = "transposition"
    fits: Sequence[tuple[Shape, int | None]] = (((8,), None), ((8, 1), None), ((8, 1), 0), ((3, 8, 1), 1), ((2, 8), -1))
    past: Sequence[tuple[Shape, int | None]] = (((8, 8), None), ((8, 3), 0), ((1, 8, 8), -2), ((1, 8, 8, 8), 1))
    return [
        *(limit(code, f"{sizes_of(s)}_dim_{_dim(d)}", model(split_use(op, s, (4, 4), d))) for s, d in fits),
        *(outside(code, f"{sizes_of(s)}_dim_{_dim(d)}", model(split_use(op, s, (4, 4), d))) for s, d in past),
        *(
            outside(code, f"channels_first_dim_{_dim(d)}", model(split_use(op, (1, 16, 8, 8), (4, 4), d), behind_conv))
            for d in (2, -1)
        ),
    ]


def _dim(dim: int | None) -> str:
    return "default" if dim is None else label(dim)
