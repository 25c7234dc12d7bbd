"""No file that a backend can write says what it is asked: not a cache, nor its table, nor the suite's own files."""

from __future__ import annotations

import datetime
import json
import os
import subprocess
import sys
from itertools import count
from pathlib import Path

import pytest
from places import SHARED

from npu_assay.conformance.common.errors import UsageError
from npu_assay.conformance.record.certificate import Selection
from npu_assay.conformance.record.names import CERTIFICATE, RESULTS, TABLE
from npu_assay.conformance.run import session
from npu_assay.conformance.run.session import Request, assay
from tests.conformance.fuzz.test_fuzz import Told

LIMITED = """schema = 2
name = "poison"
version = "1.0"
backend_id = "FakeBackend"
source = "made up for the tests"
rescale = "tflite_double_round"

[parameters]

[common]
constraints = ["quantized @document", "static_shape @document"]

[constraints]
quantized = "the operator must stand between dequantize and quantize nodes (static int8)"
static_shape = "every dimension must be at least 1"
rescale = "there must not be too many output steps for each input step"
few = { says = "at most {value} dimensions", holds = "x.rank <= value" }

[operators]
"aten.abs.default" = { document = "", constraints = ["rescale @document", "few = 3 @document"] }
"""
BACKEND = """
from dataclasses import replace
from pathlib import Path
import fake_backend
from npu_assay.partitioners.exir import Backend

{body}

backend = Backend("poison", str(Path(__file__).with_name("poison@1.0.toml")), fake_backend.FakePartitioner,
                  fake_backend.FakeBackend, fake_backend.FakeRuntime())
"""
DROPS_CASES = """
import json
for path in Path(__file__).parent.rglob("*.json"):
    if path.name != "certificate.json" and "drafts" in path.read_text():
        data = json.loads(path.read_text())
        data["drafts"] = [each for each in data["drafts"] if each["CaseDraft"]["constraint"] != "few"]
        path.write_text(json.dumps(data))
"""
DROPS_LIMIT = """
table = Path(__file__).with_name("poison@1.0.toml")
table.write_text(table.read_text().replace(', "few = 3 @document"', ""))
"""


def certify(folder: Path, body: str) -> tuple[int, dict[str, str]]:
    """The command twice, each in a process of its own, with all caches below the folder; then its results."""
    (folder / "poison.py").write_text(BACKEND.format(body=body))
    places = ("HOME", "XDG_CACHE_HOME", "NPU_ASSAY_CACHE")
    environment = {**os.environ, **dict.fromkeys(places, str(folder / "home")), "PYTHONPATH": f"{folder}:{SHARED}"}
    command = [sys.executable, "-m", "npu_assay.conformance.cli", "certify", "poison:backend", "-n", "1"]
    for name in ("first", "second"):
        (folder / "poison@1.0.toml").write_text(LIMITED)
        run = subprocess.run([*command, "--out", str(folder / name)], env=environment, capture_output=True, text=True)
    lines = map(json.loads, (folder / name / RESULTS).read_text().splitlines())
    return run.returncode, {each["case"]: each["status"] for each in lines}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("body", ["", DROPS_CASES, DROPS_LIMIT], ids=["nothing", "cases", "limit"])
def test_a_backend_that_breaks_a_limit_is_not_certified_whatever_it_writes(body: str, tmp_path: Path) -> None:
    code, found = certify(tmp_path, body)
    failing = [name for name, status in found.items() if status == "fail"]
    assert code == 1 and any("/few/outside/" in name for name in failing), found
    assert (tmp_path / "second" / TABLE).read_text() == LIMITED


@pytest.mark.long
def test_a_run_leaves_nothing_that_another_could_believe(tmp_path: Path) -> None:
    certify(tmp_path, "")
    left = [path for path in (tmp_path / "home").rglob("*") if path.is_file()]
    assert left == []


def test_files_of_the_suite_that_change_end_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = count()
    monkeypatch.setattr(session, "suite_sources", lambda: {"npu_assay/a.py": "1", "npu_assay/b.py": str(next(looks))})
    request = Request("fake_backend:backend", None, Selection("aten.neg.default/operator/accept/baseline"), 1, tmp_path)
    with pytest.raises(UsageError, match=r"^npu_assay/b\.py: found another file than before the run"):
        assay(request, Told(), lambda: datetime.date(2026, 1, 1))
    assert not (tmp_path / CERTIFICATE).exists()
