"""Two plots as inline SVG: cases by their largest error in LSB, and SQNR beside its floor by operator."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from html import escape

from conformance.results import CaseResult

BINS = ("0", "1", "2", "3 to 9", "10 or more")
BAR, ROW, LEFT, WIDTH = 26, 20, 330, 900  # pixels
TEXT = 'font-family="sans-serif" font-size="12"'


def lsb_histogram(results: Iterable[CaseResult]) -> str:
    """Cases by their largest distance from the exact codes; cases without codes are left out."""
    counts = Counter(_bin(r.metrics["max_lsb"]) for r in results if isinstance(r.metrics["max_lsb"], int | float))
    most = max(counts.values(), default=1)
    bars = [_bar(index, name, counts[name], most) for index, name in enumerate(BINS)]
    return _svg(BAR * len(BINS) + 8, f"cases by largest error in LSB: {dict(counts)}", bars)


def _bin(lsb: float | int | str | None) -> str:
    number = float(lsb or 0)
    if number < 3:
        return str(int(number))
    return "3 to 9" if number < 10 else "10 or more"


def _bar(index: int, name: str, count: int, most: int) -> str:
    y, length = index * BAR + 4, round(count / most * (WIDTH - 260))
    color = "#2a7d46" if index == 0 else "#b7791f" if index == 1 else "#b3261e"
    return (
        f'<text x="100" y="{y + 16}" text-anchor="end" {TEXT}>{name} LSB</text>'
        f'<rect x="110" y="{y}" width="{length}" height="{BAR - 6}" fill="{color}"/>'
        f'<text x="{118 + length}" y="{y + 16}" {TEXT}>{count}</text>'
    )


def sqnr_plot(results: Sequence[CaseResult]) -> str:
    """One line per operator: a dot for each case's SQNR, a tick for its floor, in dB."""
    rows = sorted({r.row for r in results})
    measured = [r for r in results if _is_number(r.metrics["sqnr_db"])]
    top = max((_number(r.metrics[key]) for r in measured for key in ("sqnr_db", "sqnr_floor_db")), default=0.0)
    span = max(10.0, 10 * (top // 10 + 1))
    marks = [_line(index, row, [r for r in measured if r.row == row], span) for index, row in enumerate(rows)]
    return _svg(ROW * (len(rows) + 1) + 8, "SQNR by operator in dB", [*marks, _axis(len(rows), span)])


def _line(index: int, row: str, results: Sequence[CaseResult], span: float) -> str:
    y = index * ROW + 14
    ticks = {_x(_number(r.metrics["sqnr_floor_db"]), span) for r in results if _is_number(r.metrics["sqnr_floor_db"])}
    dots = {(_x(_number(r.metrics["sqnr_db"]), span), r.status == "fail") for r in results}
    return "".join(
        [
            f'<text x="{LEFT - 10}" y="{y + 4}" text-anchor="end" {TEXT}>{escape(row)}</text>',
            f'<line x1="{LEFT}" x2="{WIDTH - 20}" y1="{y}" y2="{y}" stroke="#ddd"/>',
            *(f'<line x1="{x}" x2="{x}" y1="{y - 6}" y2="{y + 6}" stroke="#888"/>' for x in sorted(ticks)),
            *(f'<circle cx="{x}" cy="{y}" r="3" fill="{"#b3261e" if bad else "#1f6feb"}"/>' for x, bad in sorted(dots)),
        ]
    )


def _axis(rows: int, span: float) -> str:
    y = rows * ROW + 18
    marks = range(0, int(span) + 1, 10 if span <= 120 else 50)
    return "".join(f'<text x="{_x(db, span)}" y="{y}" text-anchor="middle" {TEXT}>{db}</text>' for db in marks)


def _x(decibel: float, span: float) -> int:
    return LEFT + round(max(0.0, decibel) / span * (WIDTH - LEFT - 20))


def _is_number(value: float | int | str | None) -> bool:
    return isinstance(value, int | float)


def _number(value: float | int | str | None) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


def _svg(height: int, label: str, parts: Sequence[str]) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"'
    return f'{head} role="img" aria-label="{escape(label)}">{"".join(parts)}</svg>'
