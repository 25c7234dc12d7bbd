"""`assay run`: a .pte file, run here."""

from __future__ import annotations

from pathlib import Path

import click

from npu_assay.conformance.commands.shared import backends_option, memory_option, out, timeout_option, usage_errors


@click.command()
@click.argument("model", type=click.Path(path_type=Path))
@click.option(
    "--inputs",
    metavar="FILE",
    multiple=True,
    type=click.Path(path_type=Path),
    help="Read an .npy file, or an .npz file with several inputs in order. Can be given again.",
)
@click.option(
    "--random", "seed", metavar="SEED", type=click.IntRange(min=0), help="Draw random inputs from this seed instead."
)
@click.option("--method", default="forward", show_default=True, help="Run this method.")
@out("Write the outputs to this .npz file.")
@click.option("--force", is_flag=True, help="Write over a file that is there.")
@backends_option
@timeout_option
@memory_option
def run(
    model: Path,
    inputs: tuple[Path, ...],
    seed: int | None,
    method: str,
    out: Path | None,
    force: bool,
    specs: tuple[str, ...],
    timeout: float,
    memory: int,
) -> None:
    """Run a method of a .pte MODEL, delegates on the runtimes of their backends.

    Exit codes: 0 there are outputs, 2 usage or data error.
    """
    from rich.console import Console  # help starts without

    with usage_errors():
        from npu_assay.conformance.isolation.limits import Limits  # help starts without
        from npu_assay.conformance.pte.options import Request
        from npu_assay.conformance.pte.run import rows
        from npu_assay.conformance.pte.run import run as run_model
        from npu_assay.conformance.pte.text import WIDTH, print_table

        outputs = run_model(Request(model, inputs, method, seed, out, force, specs, Limits(timeout, memory)))
    print_table(Console(width=WIDTH, emoji=False), ("output", "type", "range: first elements"), rows(outputs))
