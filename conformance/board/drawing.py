"""Drawings of a board as SVG: a badge, and the history of a track as bars."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from npu_assay.conformance.board.digest import TALLY, Digest
from npu_assay.conformance.board.readiness import RIGHT, Readiness
from npu_assay.conformance.board.tracks import Track
from npu_assay.conformance.common.escaped import counted, plain

COLORS = {"pass": "#2a7d46", "unspecified": "#8a8f98", "waived": "#b7791f", "fail": "#b3261e", "undecided": "#7b3fa0"}
WIDTH, HEIGHT, BARS = 640, 90, 60
GLYPH = 6.6  # the width of a letter at 11 px, about; `textLength` makes it so
TONES = {"yes": COLORS["pass"], "faint": "#4a5a78", "no": COLORS["fail"]}


def badge(found: Digest) -> str:
    """The verdict of a run as a badge for other pages. It loads no other file."""
    return _badge(f"{found.backend} against {found.table}@{found.version}", found.verdict, TONES[found.tone])


def ready_badge(found: Digest, ready: Readiness) -> str:
    """How many operators of a run have which level, as a badge: "int8 40 at 4, 2 at 1"."""
    said = [f"{name} {_counts(of)}".strip() for name, of in ready.precisions.items()]
    lowest = min((each.level for each in ready.operators), default=0)
    tone = "yes" if lowest >= RIGHT else "faint" if lowest else "no"
    return _badge(f"{found.backend}: operators by level", "; ".join(said) or "refused", TONES[tone])


def _counts(of: Sequence[int]) -> str:
    return ", ".join(f"{count} at {level}" for level, count in reversed([*enumerate(of)]) if count)


def _badge(left: str, right: str, color: str) -> str:
    left, right = plain(left), plain(right)
    a, b = (round(GLYPH * len(text)) + 12 for text in (left, right))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{a + b}" height="20" viewBox="0 0 {a + b} 20" role="img" '
        f'aria-label="{escape(left)}: {escape(right)}"><title>{escape(left)}: {escape(right)}</title>'
        f'<rect width="{a + b}" height="20" rx="3" fill="#444b54"/>'
        f'<path d="M{a} 0h{b - 3}q3 0 3 3v14q0 3 -3 3h-{b - 3}z" fill="{color}"/>'
        f'<g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11">'
        f'<text x="6" y="14" textLength="{a - 12}" lengthAdjust="spacingAndGlyphs">{escape(left)}</text>'
        f'<text x="{a + 6}" y="14" textLength="{b - 12}" lengthAdjust="spacingAndGlyphs">{escape(right)}</text>'
        "</g></svg>"
    )


def history(track: Track) -> str:
    """The latest runs of a track as bars, a color for each outcome; a nonempty part is at least 2 units high."""
    runs = track.runs[-BARS:]
    most = max(1, *(sum(map(sum, one.digest.rows.values())) for one in runs))
    step = min(40.0, WIDTH / len(runs))
    bars = []
    for place, one in enumerate(runs):
        counts = totals(one.digest)
        text = ", ".join(f"{count} {kind}" for kind, count in counts.items() if count)
        top = float(HEIGHT)
        parts = [f"<title>{escape(plain(f'{one.release} {one.digest.made} {one.name}: {text}'))}</title>"]
        for kind, count in counts.items():
            height = max(2.0, (HEIGHT - 10) * count / most) if count else 0.0
            top -= height
            if count:
                parts.append(
                    f'<rect x="{place * step + 1:.1f}" y="{top:.1f}" width="{max(1.0, step - 2):.1f}" '
                    f'height="{height:.1f}" fill="{COLORS[kind]}"/>'
                )
        bars.append(f"<g>{''.join(parts)}</g>")
    label = escape(plain(f"History of {track.title}: {counted(len(runs), 'run')}, the newest on the right"))
    return (
        f'<svg class="history" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" role="img" '
        f'aria-label="{label}">{"".join(bars)}</svg>'
    )


def totals(found: Digest) -> dict[str, int]:
    """How many cases of a run have each outcome."""
    columns = zip(*found.rows.values(), strict=True) if found.rows else [()] * len(TALLY)
    return {kind: sum(column) for kind, column in zip(TALLY, columns, strict=True)}
