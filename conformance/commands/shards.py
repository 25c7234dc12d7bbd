"""The option `--shard I/N`, and where a run's record goes when nobody says so."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import click

from npu_assay.conformance.record.levels import NUMBERS
from npu_assay.conformance.record.shard import Shard


class ShardOption(click.ParamType[Shard]):
    """Part I of N, with 1 <= I <= N."""

    name = "shard"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Shard:
        """Read "2/3"."""
        found = re.fullmatch(r"([0-9]{1,6})/([0-9]{1,6})", str(value))
        if found is None or not 1 <= int(found[1]) <= int(found[2]):
            self.fail(f"found {value!r}, expected I/N with 1 <= I <= N, like 2/3.", param, ctx)
        return Shard(int(found[1]), int(found[2]))


def default_folder(backend: str, level: str, part: bool, shard: Shard | None = None) -> Path:
    """The folder of a run: none takes the place of one of a higher level, of more cases or of another shard."""
    lower = "" if level == NUMBERS else f"-{level}"
    piece = "" if shard is None else f"-shard-{shard.number}-of-{shard.of}"
    return Path(f"assay-{backend.replace(':', '.')}{lower}{'-part' * part}{piece}")
