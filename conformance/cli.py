"""The command `assay`. Only commands that run cases load torch."""

from __future__ import annotations

import atexit
import gc

import click

from npu_assay.conformance.commands.attest import attest
from npu_assay.conformance.commands.board import board
from npu_assay.conformance.commands.certify import certify
from npu_assay.conformance.commands.diff import diff
from npu_assay.conformance.commands.drift import drift
from npu_assay.conformance.commands.explain import explain
from npu_assay.conformance.commands.export import export
from npu_assay.conformance.commands.help_texts import FIRST, Commands, epilog
from npu_assay.conformance.commands.inspect import inspect_
from npu_assay.conformance.commands.judge import judge
from npu_assay.conformance.commands.list import list_
from npu_assay.conformance.commands.merge import merge
from npu_assay.conformance.commands.mutate import mutate
from npu_assay.conformance.commands.new import new
from npu_assay.conformance.commands.offer import offer
from npu_assay.conformance.commands.package import package
from npu_assay.conformance.commands.reach import reach
from npu_assay.conformance.commands.reduce import reduce
from npu_assay.conformance.commands.report import report
from npu_assay.conformance.commands.run import run
from npu_assay.conformance.commands.show import show
from npu_assay.conformance.commands.table import table
from npu_assay.conformance.commands.verify import verify


@click.group("main", cls=Commands, context_settings={"help_option_names": ["-h", "--help"]}, epilog=epilog(FIRST))
@click.version_option(package_name="npu-assay", message="%(package)s %(version)s")
def main() -> None:
    """Assay whether an NPU backend does what its operator support table says.

    BACKEND is the name of an installed backend, or module:attribute.
    """
    atexit.register(gc.freeze)  # the process ends without looking for circles once more, in all of torch's modules


for command in (
    attest,
    board,
    certify,
    diff,
    drift,
    explain,
    export,
    inspect_,
    judge,
    list_,
    merge,
    mutate,
    new,
    offer,
    package,
    reach,
    reduce,
    report,
    run,
    show,
    table,
    verify,
):
    main.add_command(command)


if __name__ == "__main__":
    main()
