"""Predicates that say nothing of a call without an argument which torch lets it leave out: `assay table lint` tells."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from npu_assay.conformance.cli import main
from npu_assay.conformance.predicates.evaluation import Undefined, holds
from npu_assay.conformance.predicates.grammar import parse_predicate
from npu_assay.conformance.predicates.left_out import silent_without

VARIANCE, CONVOLUTION = "aten.var.correction", "aten.convolution.default"
LINE = "expected 'correction is None or ...' where they keep it, or 'correction is not None and ...'"
TABLE = """schema = 2
name = "t"
version = "1"
backend_id = "T"
source = "nobody"
rescale = ""

[parameters]

[common]
constraints = []

[constraints]
small = {{ says = "the correction must be 0 or 1", holds = "{holds}" }}

[operators]
"aten.var.correction" = {{ document = "", precisions = ["fp32"], constraints = ["small @document"] }}
"""


@pytest.mark.parametrize(
    ("op", "text", "silent"),
    [
        (VARIANCE, "correction in (0, 1)", ["correction"]),
        (VARIANCE, "not correction == 1", ["correction"]),
        (VARIANCE, "x.rank < 4 or correction <= 1", ["correction"]),
        (VARIANCE, "dim == (1,) and correction <= 1", ["dim", "correction"]),
        (VARIANCE, "correction is None or correction in (0, 1)", []),
        (VARIANCE, "correction is not None and correction in (0, 1)", []),
        (VARIANCE, "correction is not None or correction in (0, 1)", ["correction"]),
        (VARIANCE, "'correction' in given and correction == 1", []),
        (VARIANCE, "'dim' not in given or correction == 1", ["correction"]),
        (VARIANCE, "keepdim", []),
        (CONVOLUTION, "bias.is_constant", ["bias"]),
        (CONVOLUTION, "'bias' not in given or bias.is_constant", []),
        (CONVOLUTION, "weight.is_constant", []),
        ("dim_order_ops._clone_dim_order.default", "x.rank == 4", []),
    ],
)
def test_what_is_silent(op: str, text: str, silent: list[str]) -> None:
    assert list(silent_without(op, parse_predicate(text))) == silent


@pytest.mark.parametrize(
    "text", ["correction in (0, 1)", "correction is None or correction in (0, 1)", "correction != 1"]
)
def test_silent_is_what_has_no_verdict(text: str) -> None:
    """The evaluation of a call without a correction gives none exactly where lint tells."""

    def without(name: str) -> object:
        raise Undefined(name)

    predicate = parse_predicate(text)
    assert (holds(predicate, without) is None) == bool(list(silent_without(VARIANCE, predicate)))


@pytest.mark.parametrize(("holds", "told"), [("correction in (0, 1)", 1), ("correction is None or correction == 1", 0)])
def test_lint_tells(holds: str, told: int, tmp_path: Path) -> None:
    (tmp_path / "t@1.toml").write_text(TABLE.format(holds=holds))
    result = CliRunner().invoke(main, ["table", "lint", str(tmp_path / "t@1.toml")])
    assert result.output.count(LINE) == told, result.output
    assert result.exit_code in (0, 1) and result.output.splitlines()[-1].startswith(f"{told} finding")
