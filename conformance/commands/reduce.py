"""`assay reduce`: the smallest part of a model that still shows what is wrong, as a script."""

from __future__ import annotations

from pathlib import Path

import click

from npu_assay.conformance.commands.completion import backends, every_operator
from npu_assay.conformance.commands.early_checks import tell_missing
from npu_assay.conformance.commands.shared import memory_option, out, plain, timeout_option, usage_errors, write_file

FOUND, NOTHING = 0, 1
KINDS = ("undelegated", "wrong", "crash", "op")


@click.command()
@click.argument("model")
@click.option("--backend", "spec", metavar="BACKEND", required=True, shell_complete=backends, help="Ask this backend.")
@click.option("--of", "what", type=click.Choice(KINDS), required=True, help="Look for a part that shows this.")
@click.option(
    "--op",
    "name",
    metavar="NAME",
    shell_complete=every_operator,
    help="Look only at operators of this name (gelu, aten.softmax.int), or of this module; needed by --of op.",
)
@click.option("--calibrate", metavar="FILE.npz|random", help="Quantize MODEL first, as assay explain does.")
@click.option("--dynamic", is_flag=True, help="Quantize activations at run time.")
@out("Write the script here.", "FILE.py")
@timeout_option
@memory_option
def reduce(
    model: str,
    spec: str,
    what: str,
    name: str | None,
    calibrate: str | None,
    dynamic: bool,
    out: Path | None,
    timeout: float,
    memory: int,
) -> None:
    """Find one operator of MODEL that BACKEND leaves out, computes wrong or dies of, and write it as a script.

    Exit codes: 0 found, 1 no operator shows it alone, 2 usage or data error.
    """
    tell_missing(model, (spec,))
    with usage_errors():
        from npu_assay.conformance.common.errors import UsageError  # help starts without
        from npu_assay.conformance.explain.confining import Request, reduced
        from npu_assay.conformance.isolation.limits import Limits

        if what == "op" and name is None:
            raise UsageError("--of op: expected --op NAME beside it")
        request = Request(model, (spec,), calibrate, Limits(timeout, memory), dynamic=dynamic)
        found, told = reduced(request, what, name)
        if found and out is not None:
            write_file(out, found.encode())
    for line in told:
        click.echo(plain(line), err=out is None)
    if not found:
        click.echo(plain(f"no operator of {model} shows it alone on {spec}"))
        raise SystemExit(NOTHING)
    click.echo(f"written: {out}" if out is not None else found, nl=out is not None)
