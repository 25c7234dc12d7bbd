"""`assay submit --check`: a good submission is complete; a faulty one is refused by a line that says why."""

from __future__ import annotations

import datetime
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from attesting import made_key
from calling import call

from npu_assay.conformance.programs.variation_names import CHOSEN
from npu_assay.conformance.record.certificate import Kept, Selection, read_certificate
from npu_assay.conformance.record.names import ATTESTATION, CERTIFICATE, RESULTS, STANDARD, TABLE
from npu_assay.conformance.record.shard import Shard
from npu_assay.conformance.record.waivers import Waiver
from tests.conformance.record.test_package import NEG, run
from tests.conformance.verify.test_rerun import forged, results_of

WHOLE = Selection(variations=CHOSEN)
KINDS = ("--predicate", "test-result", "--predicate", "vsa")
Fault = Callable[[Path, Path], Any]
"""What is done to a submission with a run `r` and the key acme.pem, with the private key."""


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A submission, and the private key that signed it."""
    folder = tmp_path_factory.mktemp("good")
    private, public = made_key(folder, "ours")
    (folder / "sub").mkdir()
    shutil.copy(public, folder / "sub" / "acme.pem")
    run(folder / "sub" / "r", selection=WHOLE)
    assert call("attest", folder / "sub" / "r", "--key", private, *KINDS).exit_code == 0
    return folder / "sub", private


def test_a_good_submission_is_complete(good: tuple[Path, Path], tmp_path: Path) -> None:
    found = call("submit", "--check", good[0])
    said = "record r, backend fake, table fake@1.0, level numbers, signed_by acme"
    assert (found.exit_code, found.output) == (0, f"{said}\n{good[0]}: complete\n")
    (tmp_path / "sub").mkdir()
    shutil.copy(good[0] / "acme.pem", tmp_path / "sub")
    assert call("package", good[0] / "r", "--out", tmp_path / "sub" / "r.zip").exit_code == 0
    found = call("submit", "--check", tmp_path / "sub", "--json")
    (record,) = json.loads(found.output)["records"]
    assert found.exit_code == 0 and json.loads(found.output) == {"complete": True, "records": [record], "problems": []}
    assert record["record"] == "r.zip" and record.keys() == {"record", "backend", "table", "level", "signed_by"}


def forge(**changes: Any) -> Fault:
    """The run with another certificate that fits its files; `changes` are values, or made of what stood there."""

    def fault(sub: Path, private: Path) -> None:
        old = read_certificate((sub / "r" / CERTIFICATE).read_text())
        made = {key: each(getattr(old, key)) if callable(each) else each for key, each in changes.items()}
        forged(sub / "r", sub / "x", list(results_of(sub / "r").values()), **made)
        replaced(sub, private)

    return fault


def rerun(name: str = "backend", selection: Selection = WHOLE) -> Fault:
    def fault(sub: Path, private: Path) -> None:
        run(sub / "x", name, selection)
        replaced(sub, private)

    return fault


def replaced(sub: Path, private: Path) -> None:
    """Put the run `x` in the place of `r`, signed if `attest` finds nothing wrong."""
    shutil.rmtree(sub / "r")
    (sub / "x").rename(sub / "r")
    call("attest", sub / "r", "--key", private)


def edit(name: str, change: Callable[[bytes], bytes]) -> Fault:
    return lambda sub, private: (sub / name).write_bytes(change((sub / name).read_bytes()))


def add(name: str, size: int = 1) -> Fault:
    return lambda sub, private: (sub / name).write_bytes(bytes(size))


def remove(name: str) -> Fault:
    return lambda sub, private: (sub / name).unlink()


def without(*names: str) -> Callable[[dict[str, str]], dict[str, str]]:
    return lambda found: {key: value for key, value in found.items() if key not in names}


def waiver(reason: str, expires: str) -> Fault:
    made = Waiver(NEG, ("gate1",), reason, "me", datetime.date(2026, 7, 1))

    def fault(sub: Path, private: Path) -> None:
        forge(waivers=(made,))(sub, private)
        edit(f"r/{CERTIFICATE}", lambda data: data.replace(b"2026-07-01", expires.encode()))(sub, private)

    return fault


FAULTS: dict[str, tuple[Fault, str]] = {
    "foreign file": (
        add("notes.txt"),
        "notes.txt: foreign file: found no record, expected records, archives of them, ",
    ),
    "foreign file of a run": (add("r/x.py"), "r: foreign file: found x.py, expected files of 'assay certify' and "),
    "journal": (add("r/results.partial.jsonl"), "r: foreign file: found results.partial.jsonl, expected "),
    "link": (lambda sub, private: (sub / "s").symlink_to("r"), "s: foreign file: found no record, expected "),
    "many files": (lambda sub, private: [add(f"r/{n}")(sub, private) for n in range(64)], "found more than 64 files"),
    "large file": (
        add(f"r/{CERTIFICATE}", 2**25 + 1),
        "33554433 bytes, expected at most 33554432)', expected one that",
    ),
    "large key": (add("acme.pem", 2**16 + 1), "acme.pem: key: found "),
    "private key": (lambda sub, private: shutil.copy(private, sub / "acme.pem"), "found a private key, expected a"),
    "no key": (remove("acme.pem"), "r: attestation: found 'no public key is there', expected all signed by one key"),
    "another key": (lambda sub, _: made_key(sub, "acme")[1].rename(sub / "acme.pem"), "found a signature by '"),
    "not signed": (remove(f"r/{ATTESTATION}"), "r: attestation: found 'attestation.json is missing: "),
    "changed signature": (edit(f"r/{ATTESTATION}", lambda data: data.replace(b"A", b"B", 1)), "does not fit what it"),
    "vsa of another kind": (
        lambda sub, _: shutil.copy(sub / "r" / STANDARD["test-result"], sub / "r" / STANDARD["vsa"]),
        "r: attestation: found 'attestation.vsa.json: predicateType: found 'https://in-toto.io/attestation/test-result",
    ),
    "no record": (lambda sub, _: shutil.rmtree(sub / "r"), "records: found none, expected at least one"),
    "no run": (lambda sub, _: (sub / "e").mkdir(), "e: record: found '"),
    "archive cut off": (add("a.zip", 30), "a.zip: record: found '"),
    "record twice": (lambda sub, _: shutil.copytree(sub / "r", sub / "s"), "s: backend and table: found those of r, "),
    "cut results": (edit(f"r/{RESULTS}", lambda data: data[:-1]), "r: verify: found 'results.jsonl is truncated"),
    "edited result": (
        edit(f"r/{RESULTS}", lambda d: d.replace(b"accept", b"reject", 1)),
        "found 'results.jsonl line 1",
    ),
    "no certificate": (remove(f"r/{CERTIFICATE}"), "r: verify: found 'incomplete: "),
    "no report": (remove("r/report.md"), "r: verify: found 'incomplete: report.md is missing', expected no problem"),
    "another table": (
        edit(f"r/{TABLE}", lambda data: data + b"\n"),
        "found 'table.toml is not the table that the cert",
    ),
    "table's version": (
        forge(table=lambda old: old | {"version": "9"}),
        "names the table fake@9, table.toml is fake@1.0",
    ),
    "-k": (rerun(selection=replace(WHOLE, expression=NEG)), f"r: selection: found '-k '{NEG}'', expected all cases"),
    "smoke": (rerun(selection=replace(WHOLE, smoke=True)), "r: selection: found '--smoke', expected all cases"),
    "no variations": (rerun(selection=Selection(NEG, variations="none")), "--variations none', expected all cases"),
    "unsaid variations": (rerun(selection=Selection()), "r: selection: found '', expected all cases, with variations"),
    "shard": (
        rerun(selection=replace(WHOLE, shard=Shard(1, 99))),
        "r: selection: found '--shard 1/99', expected all cases",
    ),
    "seed": (rerun(selection=Selection(NEG, seed=3)), "r: seed: found 3, expected 0"),
    "level": (forge(level="tags"), "r: level: found tags, expected numbers"),
    "failures": (rerun("drifts", Selection(NEG)), "r: verdict: found '1 of 1 cases fail', expected certified"),
    "no torch": (forge(environment=without("torch")), "r: environment: torch: found nothing, expected what the run"),
    "no system": (forge(environment=without("system")), "r: environment: system: found nothing, expected what the run"),
    "backend's version": (forge(environment=lambda old: old | {"sdk": "not installed"}), "sdk: found not installed, "),
    "suite's version": (forge(suite=lambda old: old | {"version": "0.0.1"}), "r: suite: found 0.0.1, expected "),
    "suite's sources": (
        forge(suite=lambda old: old | {"sources": {}}),
        "verify: found 'the suite's sources differ from",
    ),
    "backend's files": (
        forge(backend=lambda old: old | {"sources": {}}),
        "r: backend: found no file, expected the files",
    ),
    "future": (forge(made="2999-01-01"), "found 2999-01-01, a day in the future', expected no problem"),
    "kept": (forge(kept=Kept(1, 1, "", "0" * 64, "2026-05-01")), "r: verify: found 'kept: 1 answers are those of"),
    "waiver without a reason": (waiver(" ", "2026-07-01"), "waiver 1: reason: expected some text, found ' '"),
    "waiver without a date": (waiver("known", ""), "r: verify: found 'certificate.json is not a certificate: "),
    "waiver of no failure": (
        waiver("known", "2026-07-01"),
        "is not needed: the case does not fail', expected certified",
    ),
}


@pytest.mark.sampled(8)
@pytest.mark.parametrize("name", FAULTS)
def test_a_faulty_submission_is_refused(name: str, good: tuple[Path, Path], tmp_path: Path) -> None:
    fault, line = FAULTS[name]
    sub = shutil.copytree(good[0], tmp_path / "sub")
    fault(sub, good[1])
    found = call("submit", "--check", sub)
    assert found.exit_code == 1 and line in found.output, found.output
    assert found.output.endswith(f"{sub}: not complete\n")


def test_a_table_that_is_not_the_shipped_one_of_its_name_is_refused(
    good: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "fake@1.0.toml").write_bytes((good[0] / "r" / TABLE).read_bytes() + b"\n")
    monkeypatch.setattr("npu_assay.conformance.verify.verification.FOLDER", tmp_path)
    found = call("submit", "--check", good[0])
    assert found.exit_code == 1 and "found 'table.toml differs from the table fake@1.0 that ships" in found.output
