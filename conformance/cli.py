"""The command `assay`. Only commands that run cases load torch."""

from __future__ import annotations

import atexit
import gc
from importlib import import_module

import click

from npu_assay.conformance.commands.help_texts import COMMANDS, FIRST, Commands, epilog


@click.group("main", cls=Commands, context_settings={"help_option_names": ["-h", "--help"]}, epilog=epilog(FIRST))
@click.version_option(package_name="npu-assay", message="%(package)s %(version)s")
def main() -> None:
    """Assay whether an NPU backend does what its operator support table says.

    BACKEND is the name of an installed backend, or module:attribute.
    """
    atexit.register(gc.freeze)  # the process ends without looking for circles once more, in all of torch's modules


for name in COMMANDS:
    if " " not in name:  # a command of a group is the group's
        main.add_command(getattr(import_module(f"npu_assay.conformance.commands.{name}"), name))


if __name__ == "__main__":
    main()
