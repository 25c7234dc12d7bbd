"""What the tests of builds share: commands in an environment, and texts that nobody wrote."""

from __future__ import annotations

import re
from pathlib import Path

from click.testing import CliRunner, Result

from npu_assay.conformance.cli import main

HOSTILE = "<script>alert(1)</script> [x](http://e.vil) `` | \\| **b** %25\r\n::error::made up \x00\x1b[31m @someone"


def command(*arguments: str | Path, environment: dict[str, str] | None = None) -> Result:
    return CliRunner().invoke(main, list(map(str, arguments)), env=environment)


def outside_of_code(text: str) -> str:
    """What is left of Markdown without its code spans: where a parser looks for markup."""
    return re.sub(r"(?<!`)(`+)(?!`).*?(?<!`)\1(?!`)", "", text)
