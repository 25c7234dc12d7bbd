"""What `--help` says besides a command's own docstring: one short line in the list of commands, and examples."""

from __future__ import annotations

import errno
import sys
from collections.abc import Mapping
from typing import Any, NamedTuple

import click

from npu_assay.conformance.commands.exhausted import exhausted
from npu_assay.conformance.commands.shared import annotate, plain, refuse
from npu_assay.conformance.common.describing import describe

NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}
"""Errors of a disk that takes no more of what a command prints."""


class Told(NamedTuple):
    """short: the line in the list of commands, a whole sentence. examples: what can be typed, each with why."""

    short: str
    examples: tuple[tuple[str, str], ...]


COMMANDS: Mapping[str, Told] = {
    "list": Told("List installed backends and shipped tables.", (("assay list", ""),)),
    "show": Told(
        "Show a table, or one operator of it with its cases.",
        (("assay show neutron", "the operators of a table"), ("assay show xnnpack aten.add.Tensor", "one of them")),
    ),
    "board": Told(
        "Make a static site over many runs.",
        (("assay board 1.0=old.zip 1.1=assay-neutron --out site", ""),),
    ),
    "certify": Told(
        "Run the cases; write certificate and reports.",
        (
            ("assay certify neutron", "all cases"),
            ('assay certify xnnpack -k "linear and int4"', "some of them"),
            ("assay certify neutron --level tags", "the partitioner alone"),
        ),
    ),
    "offer": Told("Offer a backend what its table does not list.", (("assay offer neutron -k cosh", "one operator"),)),
    "characterize": Told(
        "Measure how a backend rounds.",
        (
            ("assay characterize neutron -k convolution", "one operator"),
            ("assay characterize neutron --out rounding", ""),
        ),
    ),
    "new": Told("Write a package with a small backend.", (("assay new my_npu", "then: pip install -e my_npu"),)),
    "verify": Told(
        "Derive the verdict of a run again.",
        (
            ("assay verify assay-neutron", "from its files"),
            ("assay verify assay-neutron.zip --rerun 20", "and run 20 cases again"),
        ),
    ),
    "attest": Told("Sign a run's certificate.", (("assay attest assay-neutron --key private.pem", ""),)),
    "submit": Told("Check that a submission is complete.", (("assay submit --check submission", ""),)),
    "package": Told("Make one archive of a run.", (("assay package assay-neutron", "assay-neutron.zip"),)),
    "drift": Told(
        "Compare a table with what the backend did.",
        (("assay drift assay-neutron", "by operator and constraint"), ("assay drift assay-neutron --document", "")),
    ),
    "diff": Told(
        "Show what changed between two runs.",
        (("assay diff old.zip assay-neutron", ""), ("assay diff a b --markdown", "for a comment on a change")),
    ),
    "merge": Told(
        "Make one record of all shards of a run.",
        (
            ("assay merge assay-neutron-shard-*", ""),
            ("assay merge shard-* --table my_npu@0.1.toml", "annotations at its lines"),
        ),
    ),
    "mutate": Told(
        "Inject faults into a backend: are they noticed?",
        (("assay mutate neutron -k rounding", "those of one kind"),),
    ),
    "export": Told("Write cases as files for other toolchains.", (("assay export neutron cases -k aten.relu", ""),)),
    "judge": Told("Judge what another toolchain computed.", (("assay judge cases --outputs outputs", ""),)),
    "explain": Told(
        "Show what backends take of a model, and why not the rest.",
        (
            ("assay explain model.pt2 --backend neutron --calibrate random", ""),
            ("assay explain models:net --backend neutron --backend xnnpack --out page", "two, with a page"),
        ),
    ),
    "reach": Told(
        "See whether users meet what cases show.",
        (
            ("assay reach neutron -k abs", ""),
            ("assay reach executorch:xnnpack --of assay-executorch.xnnpack --out met.jsonl", "what failed in a run"),
        ),
    ),
    "reduce": Told(
        "Find the smallest part of a model that shows a fault.",
        (("assay reduce model.pt2 --backend xnnpack --of undelegated --out part.py", ""),),
    ),
    "release": Told(
        "Show what changed between two releases of a package.",
        (
            ("assay release executorch==1.5.0 executorch==1.5.1", "all its backends, all cases"),
            ("assay release openvino==2026.3.0 openvino==2026.4.1 --smoke", "a few cases"),
        ),
    ),
    "report": Told(
        "Write the report of a recorded run again.",
        (("assay report assay-neutron --since old.zip", "with what is new since that one"),),
    ),
    "inspect": Told("Show what a .pte file holds.", (("assay inspect model.pte", ""),)),
    "run": Told(
        "Run a .pte file here.",
        (("assay run model.pte --random 0", ""), ("assay run model.pte --inputs inputs.npz --out outputs.npz", "")),
    ),
    "table": Told("Work on operator support tables.", (("assay table lint my_npu@0.1.toml", ""),)),
    "table coverage": Told("Measure how well a table's limits are shown.", (("assay table coverage neutron@1.3", ""),)),
    "table diff": Told("Show what changed between two tables.", (("assay table diff old.toml neutron@1.3", ""),)),
    "table import": Told(
        "Make a table of a published one.",
        (("assay table import published.csv --name my_npu --out my_npu@0.1.toml", ""),),
    ),
    "table lint": Told("List what keeps rows from being certified.", (("assay table lint neutron@1.3", ""),)),
    "table reference": Told("Print a table as a page.", (("assay table reference neutron@1.3", ""),)),
    "table upgrade": Told("Rewrite a table in the newest schema.", (("assay table upgrade my_npu@0.1.toml", ""),)),
}


FIRST = Told(
    "Assay whether an NPU backend does what its operator support table says.",
    (
        ("assay list", "what is there"),
        ("assay certify neutron", "all cases, and a certificate"),
        ("assay new my_npu", "a backend of your own"),
        ("assay explain net:make --backend neutron", "a model: make() in net.py"),
        ("assay certify --help", "what a command takes"),
    ),
)
"""What a new user may want first."""


class Commands(click.Group):
    """A group whose commands are told as COMMANDS says. Raises KeyError for one that is not there."""

    def add_command(self, cmd: click.Command, name: str | None = None) -> None:
        """Give the command its line and its examples."""
        path = f"{self.name} {name or cmd.name}".removeprefix("main ")
        told = COMMANDS[path]
        cmd.short_help, cmd.epilog = told.short, epilog(told)
        super().add_command(cmd, name)

    def invoke(self, ctx: click.Context) -> Any:
        """Run what was asked for. What click finds wrong with it is an annotation, too, said by the outermost group."""
        try:
            return super().invoke(ctx)
        except click.ClickException as error:
            if ctx.parent is None:
                annotate(plain(error.format_message()))
            raise

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Run a command. Where the system gives too little for it, end with one line and exit code 2."""
        try:
            return super().main(*args, **kwargs)
        except Exception as error:
            if isinstance(error, OSError) and error.errno in NO_ROOM and error.filename is None:
                sys.stdout = None  # the rest of it would be tried once more at the end
                refuse(f"the output cannot be written: {error.strerror}")
            if (lacking := exhausted(error)) is None:
                raise
            sys.unraisablehook = lambda _: None  # what fails at the end does so for the same reason
            refuse(f"found too little {lacking} for this command, expected more: {describe(error):.300}")


def epilog(told: Told) -> str:
    """The examples, a line each, as they are typed: without its mark, click would make a paragraph of them."""
    width = max(len(command) for command, _ in told.examples)
    lines = (f"  {command:<{width}}   {why}".rstrip() for command, why in told.examples)
    return "\n".join(["\b", "Examples:" if len(told.examples) > 1 else "Example:", *lines])
