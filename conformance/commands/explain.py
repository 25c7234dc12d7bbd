"""`assay explain`: what backends take of a model, why not the rest, what that costs, what is left of the numbers."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from npu_assay.conformance.commands.completion import backends
from npu_assay.conformance.commands.early_checks import tell_missing
from npu_assay.conformance.commands.shared import (
    cores,
    memory_option,
    out,
    plain,
    timeout_option,
    usage_errors,
    write_file,
)
from npu_assay.conformance.common.errors import UsageError
from npu_assay.conformance.isolation.limits import Limits

if TYPE_CHECKING:
    from npu_assay.conformance.explain import Explanation

DONE, BELOW = 0, 1
JSON, PAGE = "explain.json", "explain.html"


@click.command()
@click.argument("model")
@click.option(
    "--backend",
    "specs",
    metavar="BACKEND",
    multiple=True,
    required=True,
    shell_complete=backends,
    help="Ask this backend. Can be given again.",
)
@click.option(
    "--calibrate",
    metavar="FILE.npz|random",
    help="Quantize MODEL for each backend first, calibrated with these inputs; take it as it is if left out.",
)
@click.option("--inputs", metavar="FILE.npz|random", help="Run on these inputs, not on those that calibrate.")
@click.option("--dynamic", is_flag=True, help="Quantize activations at run time, where BACKEND has a quantizer for it.")
@out(f"Write {PAGE} and {JSON} here.", "DIR")
@click.option("--pte", is_flag=True, help="Write the program of each backend there, too.")
@click.option("-v", "--verbose", is_flag=True, help="Show all causes, operators, modules and warnings, and each step.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option(
    "--fail-under",
    metavar="SHARE",
    type=click.FloatRange(0, 1),
    help="Exit with 1 if a backend takes less than this share of the multiply-accumulates (0 to 1).",
)
@click.option(
    "-n",
    "workers",
    metavar="N",
    type=click.IntRange(min=1),
    help="Explain on N backends at a time; on one more than there are cores if left out.",
)
@timeout_option
@memory_option
def explain(
    model: str,
    specs: tuple[str, ...],
    calibrate: str | None,
    inputs: str | None,
    dynamic: bool,
    out: Path | None,
    pte: bool,
    verbose: bool,
    as_json: bool,
    fail_under: float | None,
    workers: int | None,
    timeout: float,
    memory: int,
) -> None:
    """Show which operators of MODEL each backend takes, and why it leaves out the others.

    MODEL is a file of torch.export.save (.pt2), or module:factory, a function that returns a module and its example
    inputs. Exit codes: 0 whatever is found, 1 less than --fail-under or no answer to it, 2 usage or data error.
    """
    tell_missing(model, specs)
    specs = tuple(dict.fromkeys(specs))
    begin = plain(f"reading {model}, to ask {', '.join(specs)}")
    if "torch" not in sys.modules and not sys.stderr.isatty():
        click.echo(begin, err=True)  # as torch takes seconds to load
    with usage_errors():
        from npu_assay.conformance.explain.confining import Request, found  # with text and page it loads torch
        from npu_assay.conformance.explain.progress import shown
        from npu_assay.conformance.explain.text import explanation_lines

        if dynamic and calibrate is None:
            raise UsageError("--dynamic: expected --calibrate beside it, as it says how MODEL is quantized")
        if pte and out is None:
            raise UsageError("--pte: expected --out DIR beside it, where the files are written")
        request = Request(model, specs, calibrate, Limits(timeout, memory), inputs, dynamic, pte)
        written: list[Path] = []
        with shown(specs, begin, verbose) as progress:
            answer = found(request, cores() + 1 if workers is None else workers, progress)
        explanation = answer.explanation
        text = json.dumps(explanation.as_json(), indent=1)
        if out is not None:
            from npu_assay.conformance.explain.page import page  # loads torch

            programs = {_file(backend): data for backend, data in answer.files.items()}
            written = _write(out, {JSON: f"{text}\n".encode(), PAGE: page(explanation).encode(), **programs})
    if as_json:
        click.echo(text)
    else:
        click.echo("\n".join(explanation_lines(explanation, verbose)))
    missing = [
        f"not written: {_file(one.backend)}: {one.no_file}" for one in explanation.backends if pte and one.no_file
    ]
    for line in (*(f"written: {path}" for path in written), *missing):
        click.echo(plain(line), err=as_json)
    if fail_under is not None:
        _demand(explanation, fail_under)


def _demand(explanation: Explanation, share: float) -> None:
    """End with 1, and say why, if a backend takes less than this share."""
    short = {one.backend: one.short_of(share) for one in explanation.backends}
    for backend, why in short.items():
        if why:
            click.echo(plain(f"assay: --fail-under: {backend}: {why}"), err=True)
    if any(short.values()):
        raise SystemExit(BELOW)


def _file(backend: str) -> str:
    """The name of a backend's program file."""
    return re.sub(r"[^\w.@+-]", ".", backend) + ".pte"


def _write(folder: Path, files: Mapping[str, bytes]) -> list[Path]:
    """The files, each whole or not at all; where they are."""
    for name, data in files.items():
        write_file(folder / name, data)
    return [folder / name for name in files]
