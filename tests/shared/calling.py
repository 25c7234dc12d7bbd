"""Commands, called in this process."""

from __future__ import annotations

from click.testing import CliRunner, Result

from npu_assay.conformance.cli import main


def call(*arguments: object) -> Result:
    """A command with these arguments, which ends in no error but its own."""
    found = CliRunner().invoke(main, list(map(str, arguments)))
    assert found.exception is None or isinstance(found.exception, SystemExit), found.exception
    return found


def assay(*arguments: object) -> tuple[int, str]:
    """Exit code and everything printed."""
    found = call(*arguments)
    return found.exit_code, found.output
