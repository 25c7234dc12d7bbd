"""The plots as inline SVG: cases by largest error in LSB, all and by operator, and SQNR beside its floor."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from html import escape

from npu_assay.conformance.record.results import CaseResult

BINS = ("0", "1", "2", "3 to 9", "10 or more")
COLORS = ("#2a9d57", "#c98a1b", "#d9622b", "#d13438", "#8e1b3a")
BLUE, RED = "#2f81f7", "#e5484d"
BAR, ROW, LEFT, RIGHT, WIDTH = 26, 20, 330, 60, 900  # pixels
TEXT = 'fill="currentColor" font-family="sans-serif" font-size="12"'
FAINT = 'stroke="currentColor" stroke-opacity="0.2"'


# ------------------------------------------------------------------------------------ LSB


def lsb_histogram(results: Iterable[CaseResult]) -> str:
    """Cases by their largest distance from the exact codes; cases without codes are left out."""
    counts = Counter(_bin(float(lsb)) for lsb in map(_lsb, results) if lsb is not None)
    most = max(counts.values(), default=1)
    bars = [_bar(index, name, counts[name], most) for index, name in enumerate(BINS)]
    axis = _text(110, BAR * len(BINS) + 18, "cases, by their largest error in LSB (0: every code is exact)", "start")
    return _svg(BAR * len(BINS) + 28, "Cases by largest error in LSB", [*bars, axis])


def _lsb(result: CaseResult) -> float | None:
    value = result.metrics["max_lsb"]
    return float(value) if isinstance(value, int | float) else None


def _bin(lsb: float) -> str:
    if lsb < 3:
        return str(int(lsb))
    return "3 to 9" if lsb < 10 else "10 or more"


def _bar(index: int, name: str, count: int, most: int) -> str:
    y, length = index * BAR + 4, round(count / most * (WIDTH - 260))
    return (
        _text(100, y + 16, f"{name} LSB", "end")
        + f'<rect x="110" y="{y}" width="{length}" height="{BAR - 6}" fill="{COLORS[index]}"/>'
        + _text(118 + length, y + 16, str(count), "start")
    )


def lsb_by_row(results: Sequence[CaseResult]) -> str:
    """The same histogram for each operator, lying: one bar, its parts as long as the shares of its cases."""
    rows = sorted({r.row for r in results if _lsb(r) is not None})
    counts = {row: Counter(_bin(lsb) for r in results if r.row == row and (lsb := _lsb(r)) is not None) for row in rows}
    lines = [_shares((index + 1) * ROW + 6, row, counts[row]) for index, row in enumerate(rows)]
    label = "Share of each operator's cases by largest error in LSB"
    return _svg(ROW * (len(rows) + 1) + 8, label, [_legend(), *lines])


def _legend() -> str:
    parts = []
    for index, name in enumerate(BINS):
        x = LEFT + index * 105
        parts.append(f'<rect x="{x}" y="4" width="12" height="12" fill="{COLORS[index]}"/>')
        parts.append(_text(x + 18, 15, f"{name} LSB", "start"))
    return "".join(parts)


def _shares(y: int, row: str, counts: Counter[str]) -> str:
    total, x, parts = counts.total(), float(LEFT), [_text(LEFT - 10, y + 12, row, "end")]
    for name, color in zip(BINS, COLORS, strict=True):
        width = counts[name] / total * (WIDTH - LEFT - RIGHT)
        tip = f"<title>{escape(row)}: {counts[name]} of {total} cases with {name} LSB</title>"
        if counts[name]:
            parts.append(
                f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{ROW - 6}" fill="{color}">{tip}</rect>'
            )
        x += width
    return "".join([*parts, _text(WIDTH - RIGHT + 8, y + 12, str(total), "start")])


# ------------------------------------------------------------------------------------ SQNR


def sqnr_plot(results: Sequence[CaseResult]) -> str:
    """One line per operator: a dot for each case's SQNR, a tick for its floor, in dB; below 0 drawn at 0."""
    rows = sorted({r.row for r in results})
    measured = [r for r in results if _is_number(r.metrics["sqnr_db"])]
    top = max((_number(r.metrics[key]) for r in measured for key in ("sqnr_db", "sqnr_floor_db")), default=0.0)
    span = max(10.0, 10 * (top // 10 + 1))
    marks = [_line(index, row, [r for r in measured if r.row == row], span) for index, row in enumerate(rows)]
    return _svg(ROW * (len(rows) + 1) + 28, "SQNR by operator in dB", [_axis(len(rows), span), *marks])


def _line(index: int, row: str, results: Sequence[CaseResult], span: float) -> str:
    y = index * ROW + 14
    ticks = {_x(_number(r.metrics["sqnr_floor_db"]), span) for r in results if _is_number(r.metrics["sqnr_floor_db"])}
    dots = {(_x(_number(r.metrics["sqnr_db"]), span), r.status == "fail") for r in results}
    return "".join(
        [
            _text(LEFT - 10, y + 4, row, "end"),
            f'<line x1="{LEFT}" x2="{WIDTH - 20}" y1="{y}" y2="{y}" {FAINT}/>',
            _marks(f"M{x} {y - 6}v12" for x in sorted(ticks)).format('stroke="#888"'),
            *(_dots(y, [x for x, bad in sorted(dots) if bad == red], RED if red else BLUE) for red in (False, True)),
        ]
    )


def _marks(parts: Iterable[str]) -> str:
    """Many marks as one path, which takes less than an element for each."""
    path = "".join(parts)
    return f'<path d="{path}" {{}}/>' if path else ""


def _dots(y: int, places: Iterable[int], color: str) -> str:
    """Lines of no length with round ends."""
    return _marks(f"M{x} {y}h0" for x in places).format(f'stroke="{color}" stroke-width="6" stroke-linecap="round"')


def _axis(rows: int, span: float) -> str:
    bottom = rows * ROW + 4
    marks = [_x(db, span) for db in range(0, int(span) + 1, 10 if span <= 120 else 50)]
    numbers = [_text(x, bottom + 14, str(round((x - LEFT) / _scale(span))), "middle") for x in marks]
    lines = [f'<line x1="{x}" x2="{x}" y1="4" y2="{bottom}" {FAINT}/>' for x in marks]
    middle = (LEFT + WIDTH - 20) // 2
    return "".join([*lines, *numbers, _text(middle, bottom + 32, "SQNR in dB, higher is better", "middle")])


def _x(decibel: float, span: float) -> int:
    return LEFT + round(max(0.0, decibel) * _scale(span))


def _scale(span: float) -> float:
    """Pixels per dB."""
    return (WIDTH - LEFT - 20) / span


def _is_number(value: float | int | str | None) -> bool:
    return isinstance(value, int | float)


def _number(value: float | int | str | None) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


# ------------------------------------------------------------------------------------ pieces


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}" {TEXT}>{escape(text)}</text>'


def _svg(height: int, title: str, parts: Sequence[str]) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"'
    return f'{head} role="img"><title>{escape(title)}</title>{"".join(parts)}</svg>'
