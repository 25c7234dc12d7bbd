"""An operator that the suite lacks: a home in a package of its own, one line of the table, one row of the vendor."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from npu_assay.reference.operators.lookup import home, outside_operators
from tests.conformance.table.test_new_rows import assay, with_row

NAME = "aten.threshold.default"
HOME = '''
"""aten.threshold.default for npu-assay."""

import torch

from npu_assay.reference.golden import Bounded
from npu_assay.reference.operators import Operator, behind


def golden(x, threshold, value):
    """x above the threshold, else the value; where the bounds reach over it, either."""
    found = torch.where(x.value > threshold, x.value, value)
    if x.exact:
        return Bounded(found)
    apart = (x.value - value).abs() + x.spread()
    above, below = x.value - x.error > threshold, x.value + x.error <= threshold
    return Bounded(found, torch.where(above, x.spread(), torch.where(below, 0.0, apart)))


operator = Operator("aten.threshold.default", golden, behind(0.5, -1.5), elementwise=True, shapes=((7,), (3, 5)))
'''
KERNEL = (
    'lambda s, a, x: [(torch.where(x * s[0] > a["threshold"], x << 16, round(a["value"] / s[0] * 2**16)), '
    "s[0] / 2**16)]"
)
LIMIT = """

@rule("lanes")
def lanes(node: fx.Node, cluster: Cluster | None) -> str | None:
    \"\"\"channels are a multiple of 8\"\"\"
    sizes = node.args[0].meta["val"].shape
    return f"{sizes[1]} channels" if len(sizes) > 1 and sizes[1] % 8 else None


@rule("moderate")
def moderate(node: fx.Node, cluster: Cluster | None) -> str | None:
    \"\"\"numbers of the operator are at most 2**14 codes of the input\"\"\"
    if cluster is None:
        return None
    scale = cluster.describe()[0]["operands"][0]["scale"]
    return None if all(abs(n) <= 2**14 * scale for n in node.args[1:]) else "large ones"


class MyNpuPartitioner"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A backend made by `assay new`, and a distribution with the home, installed as pip leaves it."""
    site = tmp_path / "site"
    record = site / "assay_threshold-1.0.dist-info"
    record.mkdir(parents=True)
    (site / "assay_threshold.py").write_text(HOME)
    (record / "METADATA").write_text("Metadata-Version: 2.1\nName: assay-threshold\nVersion: 1.0\n")
    (record / "entry_points.txt").write_text("[npu_assay.operators]\nthreshold = assay_threshold:operator\n")
    monkeypatch.chdir(tmp_path)
    outside_operators.cache_clear()
    assert home(NAME) is None
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.syspath_prepend(str(tmp_path / "my_npu"))
    outside_operators.cache_clear()
    assert assay("new", "my_npu")[0] == 0
    with_row(tmp_path, NAME, KERNEL)
    yield tmp_path
    outside_operators.cache_clear()


def change(project: Path, file: str, old: str, new: str) -> None:
    path = project / "my_npu" / "my_npu" / file
    text = path.read_text()
    assert text.count(old) == 1, old
    path.write_text(text.replace(old, new))


def with_limit(project: Path) -> None:
    """The row promises 8 channels, and its rule keeps to that."""
    table = "my_npu@0.1.toml"
    line = f'"{NAME}" = {{ document = "", constraints = '
    change(project, table, f"{line}[]", f'{line}["lanes = 8 @document"]')
    says = 'lanes = { says = "channels are a multiple of {value}", holds = "channels % value == 0" }'
    change(project, table, "[constraints]\n", f"[constraints]\n{says}\n")
    change(project, "partitioner.py", "\n\nclass MyNpuPartitioner", LIMIT)
    change(project, "partitioner.py", f'"{NAME}": ()', f'"{NAME}": (lanes, moderate)')


@pytest.mark.long
def test_it_certifies(project: Path) -> None:
    with_limit(project)
    code, output = assay("certify", "my_npu:backend", "--out", "out")
    assert code == 0, output
    assert "6 operators" in output and "CERTIFIED" in output


def test_a_broken_rule_does_not(project: Path) -> None:
    with_limit(project)
    change(project, "partitioner.py", "sizes[1] % 8", "sizes[1] % 4")
    code, output = assay("certify", "my_npu:backend", "--out", "out", "-k", "threshold")
    assert code == 1, output
    assert "expected reject for lanes" in output


def test_a_broken_kernel_does_not(project: Path) -> None:
    change(project, "runtime.py", '> a["threshold"]', ">= 0")
    code, output = assay("certify", "my_npu:backend", "--out", "out", "-k", "threshold")
    assert code == 1, output
    assert "gate" in output


def test_without_its_home_the_table_is_one_error(project: Path) -> None:
    (project / "site" / "assay_threshold-1.0.dist-info" / "entry_points.txt").unlink()
    outside_operators.cache_clear()
    code, output = assay("certify", "my_npu:backend", "--out", "out")
    assert code == 2, output
    assert f"'{NAME}'" in output
