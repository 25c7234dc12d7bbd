"""The board as a command, and the files that it wrote."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner, Result

from npu_assay.conformance.board.reading import CACHE
from npu_assay.conformance.cli import main
from npu_assay.conformance.record.names import RESULTS


def board(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["board", *map(str, arguments), "-n", "1"])


def files(site: Path) -> dict[str, bytes]:
    """The pages, without the cache."""
    found = (path for path in site.rglob("*") if path.is_file() and path.name != CACHE)
    return {path.relative_to(site).as_posix(): path.read_bytes() for path in found}


def break_results(run: Path) -> None:
    (run / RESULTS).write_text((run / RESULTS).read_text().replace('"pass"', '"fail"', 1))
