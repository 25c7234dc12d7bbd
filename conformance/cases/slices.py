"""aten.slice_copy.Tensor, and the splits, which are slices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from npu_assay.conformance.cases.limits import Limits, past
from npu_assay.conformance.cases.make import (
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
from npu_assay.conformance.cases.permitted import pieces, sliced_size
from npu_assay.conformance.cases.shared import contexts, movement, rank_limit, same_qparams
from npu_assay.conformance.programs.graph import Graph, Ref, Step

SLICE = "aten.slice_copy.Tensor"
END = 2**63 - 1  # "to the end", as torch exports x[:, 2:]
SLICED = "sliced_dim_multiple_of"
Shape = tuple[int, ...]


def slice_(shape: Shape, *rest: object) -> Use:
    """slice_copy(x, dim, start, end, step)."""
    return use(SLICE, shape, *rest)


def slice_cases(limits: Limits) -> list[Draft]:
    """aten.slice_copy.Tensor."""
    limits.fixed("step", 1)
    size, m = sliced_size(limits), limits.multiple(SLICED)
    u = slice_((1, 5, size), 2, 1, 6)
    return [
        *_slice_steps((5, size)),
        *_slice_ranges((5, size)),
        *_slice_sizes(m),
        *_slice_dims(size),
        *same_qparams(u),
        *contexts(u),
        placed("behind_abs", model(u, behind_abs)),
        *movement(u),
        *movement(slice_((1, 2 * size, 3, 5), 1, 3, 9), behind_conv, label="_channels_first")[:8],
        *rank_limit(limits, lambda shape: slice_(shape, -1, 1, 5), size),
    ]


def _slice_steps(shape: Shape) -> list[Draft]:
    return [
        limit("step", "default", model(slice_(shape, 1, 1, 6))),
        limit("step", "1", model(slice_(shape, 1, 1, 6, 1))),
        limit("step", "1_by_name", model(use(SLICE, shape, 1, start=1, end=6, step=1))),
        *(outside("step", f"{n}", model(slice_(shape, 1, 0, 7, n))) for n in (2, 3, 7)),
        outside("step", "2_to_the_end", model(slice_(shape, 1, 0, END, 2))),
    ]


def _slice_ranges(shape: Shape) -> list[Draft]:
    """Negative positions count from the end in torch; the NPU does not do that. Past the end is clipped."""
    code, size = "non_negative_range", shape[1]
    negative = ((-5, size - 1), (-size, 5), (0, -1), (1, -2), (-3, -1), (-3, END))
    fits = ((0, 1), (0, size - 1), (size - 1, size), (3, size), (3, size + 1), (3, END))
    return [
        *(limit(code, f"{label(a)}_to_{_end(b)}", model(slice_(shape, 1, a, b))) for a, b in fits),
        *(outside(code, f"{label(a)}_to_{_end(b)}", model(slice_(shape, 1, a, b))) for a, b in negative),
        silent(code, "start_none", model(slice_(shape, 1, None, 5))),
        silent(code, "end_none", model(slice_(shape, 1, 3, None))),
        silent(code, "end_left_out", model(slice_(shape, 1, 3))),
    ]


def _end(end: int) -> str:
    return "end" if end == END else label(end)


def _slice_sizes(m: int) -> list[Draft]:
    code, half, less, more = SLICED, m // 2, m - 1, m + 1
    fits = ((2, m), (2, 2 * m), (m,), (3, 1, 3 * m))
    beyond = ((2, less), (2, more), (2, half), (more,), (m, m + half), (m, m, less))
    end = min(3, m - 1)
    return [
        *(limit(code, sizes_of(s), model(slice_(s, len(s) - 1, 0, end))) for s in fits),
        *(outside(code, sizes_of(s), model(slice_(s, len(s) - 1, 0, end))) for s in dict.fromkeys(beyond)),
        outside(code, f"channels_first_{more}", model(slice_((1, more, 4, 6), 1, 0, end), behind_conv)),
        limit(code, f"channels_first_{m}", model(slice_((1, m, 4, 6), 1, 0, end), behind_conv)),
    ]


def _slice_dims(n: int) -> list[Draft]:
    """The dimension changes places with the last one, which the NPU can do only past dimensions of size 1."""
    code = "transposition"
    fits: Sequence[tuple[Shape, int]] = (
        ((2, n), 1),
        ((2, n), -1),
        ((n, 1), 0),
        ((n, 1), -2),
        ((1, n, 1), 1),
        ((3, n, 1), 1),
        ((n, 1, 1), 0),
        ((1, 3, 5, n), -1),
        ((1, 3, n, 1), 2),
    )
    beyond: Sequence[tuple[Shape, int]] = (
        ((n, n), 0),
        ((n, 3), -2),
        ((1, n, n), 1),
        ((n, 3, 1), 0),
        ((1, n, n, n), 1),
        ((1, n, n, n), 2),
        ((1, n, 3, 5), -3),
    )
    return [
        *(limit(code, f"{sizes_of(s)}_dim_{label(d)}", model(slice_(s, d, 1, 5))) for s, d in fits),
        *(outside(code, f"{sizes_of(s)}_dim_{label(d)}", model(slice_(s, d, 1, 5))) for s, d in beyond),
        *(limit(code, f"channels_first_dim_{label(d)}", _sliced_behind_conv(n, d)) for d in (1, -3)),
        *(outside(code, f"channels_first_dim_{label(d)}", _sliced_behind_conv(n, d)) for d in (2, 3, -1, -2)),
    ]


def _sliced_behind_conv(n: int, dim: int) -> Graph:
    return model(slice_((1, 2 * n, n, n), dim, 1, 5), behind_conv)


# ------------------------------------------------------------------------------------ splits


def split_use(op: str, shape: Shape, sizes: Shape, dim: int | None) -> Use:
    """A split into chunks of these sizes; `split.Tensor` takes the size of all but the last."""
    size = sizes[0] if op == "aten.split.Tensor" else sizes
    return use(op, shape, size, *(() if dim is None else (dim,)), outputs=len(sizes))


def halves(size: int) -> Shape:
    """Two pieces of a size, the first at least as large."""
    return (size - size // 2, size // 2)


def split_cases(op: str, limits: Limits) -> list[Draft]:
    """aten.split.Tensor, aten.split.default, aten.split_with_sizes.default: one slice per chunk."""
    n = sliced_size(limits)
    even = [pieces(n, size) for size in (halves(n)[0], 3, n - 1, 1)]
    uneven = [halves(n), (3, n - 3), (1, n - 1), (2, 3, n - 5)]
    chunks = even if op == "aten.split.Tensor" else uneven
    u = split_use(op, (1, 5, n), chunks[1], 2)
    return [
        *_split_sizes(op, limits.multiple(SLICED)),
        *_split_dims(op, n),
        *(accepted(f"chunks_{label(c)}", model(split_use(op, (2, 3, n), c, -1))) for c in chunks),
        *same_qparams(u),
        *contexts(u),
        placed("behind_abs", model(u, behind_abs)),
        placed("one_chunk_used", replace(model(u), outputs=(Ref(SUBJECT, 1),))),
        placed("behind_conv_channels", model(split_use(op, (1, n, 4, 6), halves(n), 1), behind_conv)),
        placed("chunks_into_add", _chunks_into_add(op, n if n % 2 == 0 else 2 * n)),
        *movement(u),
        *rank_limit(limits, lambda shape: split_use(op, shape, halves(n), -1), n),
    ]


def _chunks_into_add(op: str, n: int) -> Graph:
    u = split_use(op, (2, 3, n), halves(n), 2)
    total = Step("sum", "aten.add.Tensor", (Ref(SUBJECT, 0), Ref(SUBJECT, 1)), (), quant(0.1, 3))
    return Graph(u.values, (step(u), total), (Ref("sum"),))


def _split_sizes(op: str, m: int) -> list[Draft]:
    fits = ((m, halves(m)), (2 * m, (m, m)), (m, (m // 2 + 1, m - m // 2 - 1)), (3 * m, halves(3 * m)))
    beyond = [(size, halves(size)) for size in past(m, m - 1, m + 1, m // 2, m + m // 2)]
    return [
        *(_split_size(limit, op, size, chunks) for size, chunks in dict.fromkeys(fits) if 0 not in chunks),
        *(_split_size(outside, op, size, chunks) for size, chunks in beyond if 0 not in chunks),
        outside(
            SLICED, f"channels_first_{m + 1}", model(split_use(op, (1, m + 1, 4, 6), halves(m + 1), 1), behind_conv)
        ),
    ]


def _split_size(side: Callable[[str, str, Graph], Draft], op: str, size: int, chunks: Shape) -> Draft:
    return side(SLICED, f"{sizes_of((2, size))}_into_{label(chunks)}", model(split_use(op, (2, size), chunks, 1)))


def _split_dims(op: str, n: int) -> list[Draft]:
    code, two = "transposition", halves(n)
    fits: Sequence[tuple[Shape, int | None]] = (((n,), None), ((n, 1), None), ((n, 1), 0), ((3, n, 1), 1), ((2, n), -1))
    beyond: Sequence[tuple[Shape, int | None]] = (((n, n), None), ((n, 3), 0), ((1, n, n), -2), ((1, n, n, n), 1))
    return [
        *(limit(code, f"{sizes_of(s)}_dim_{_dim(d)}", model(split_use(op, s, two, d))) for s, d in fits),
        *(outside(code, f"{sizes_of(s)}_dim_{_dim(d)}", model(split_use(op, s, two, d))) for s, d in beyond),
        *(
            outside(code, f"channels_first_dim_{_dim(d)}", model(split_use(op, (1, 2 * n, n, n), two, d), behind_conv))
            for d in (2, -1)
        ),
    ]


def _dim(dim: int | None) -> str:
    return "default" if dim is None else label(dim)
