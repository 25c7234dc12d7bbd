"""What `assay inspect` and `assay run` print: tables no wider than 80 columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from npu_assay.conformance.common.escaped import counted, listed, plain, shorten
from npu_assay.conformance.pte.options import Summary

WIDTH = 80
NAME = 40  # characters of a segment's name: the end of a long one is mostly a digest
SHOWN = 12  # operators of a delegate's blob that are listed


def print_summary(console: Console, summary: Summary) -> None:
    """A model: its sizes, then each method."""
    console.print(f"[bold]{escape(plain(summary['file']))}[/]  {summary['bytes']:,} bytes", highlight=False)
    sizes = [("flatbuffer", summary["flatbuffer_bytes"]), *((s["content"], s["bytes"]) for s in summary["segments"])]
    print_table(console, ("part", "bytes"), [(shorten(name, NAME), f"{size:,}") for name, size in sizes])
    for method in summary["methods"]:
        _print_method(console, method)


def _print_method(console: Console, method: Summary) -> None:
    console.print(
        f"\n[bold]method {escape(plain(method['name']))}[/]  {method['instructions']} instructions", highlight=False
    )
    ports = [
        (f"{kind[:-1]} {index}", text) for kind in ("inputs", "outputs") for index, text in enumerate(method[kind])
    ]
    print_table(console, ("port", "value"), ports)
    print_table(console, ("operator", "calls"), [(o["operator"], str(o["calls"])) for o in method["operators"]])
    delegates = [
        (str(index), d["backend"], f"{d['bytes']:,}", str(d["calls"]), _operators_text(d))
        for index, d in enumerate(method["delegates"])
    ]
    print_table(console, ("delegate", "backend", "bytes", "calls", "operators"), delegates, right=(2, 3))
    memory = method["memory"]
    if memory["arena_bytes"]:
        text = f"memory: {memory['arena_bytes']:,} bytes in {counted(len(memory['arenas']), 'arena')} for "
        text += f"{counted(memory['planned_tensors'], 'tensor')} of {memory['bytes_without_reuse']:,} bytes"
        console.print(f"{text} (reuse {memory['reuse_ratio']})", highlight=False, soft_wrap=False)


def _operators_text(delegate: Summary) -> str:
    if delegate["operators"] is None:
        return "(no backend here reads the blob)"
    named = [f"{o['operator']} x{o['calls']}" if o["calls"] > 1 else o["operator"] for o in delegate["operators"]]
    return listed(named, SHOWN)


def print_table(
    console: Console, head: Sequence[str], rows: Iterable[Sequence[str]], right: Sequence[int] | None = None
) -> None:
    """A table without lines; nothing for no rows. `right` are the columns of numbers, the last one if left out."""
    rows = list(rows)
    if not rows:
        return
    table = Table(box=None, pad_edge=False, header_style="dim")
    numbers = (len(head) - 1,) if right is None and head[-1] in ("bytes", "calls") else right or ()
    for index, name in enumerate(head):
        table.add_column(name, justify="right" if index in numbers else "left", overflow="fold")
    for row in rows:
        table.add_row(*(escape(plain(cell)) for cell in row))
    console.print(table)
