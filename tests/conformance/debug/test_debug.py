"""One case in this process: stages, tracebacks, the debugger, and both answers beside each other."""

from __future__ import annotations

import pdb
import re
import shlex
import subprocess
import sys
from pathlib import Path
from types import TracebackType

import fake_backend
import pytest
from calling import call
from places import ROOT

from npu_assay.conformance.backend import stated_table as stated
from npu_assay.conformance.backend.loading import load_backend, registered
from npu_assay.conformance.backend.stated_table import stated_table
from npu_assay.conformance.commands import debugging
from npu_assay.conformance.debug.one import Debugged, Watching, debug
from npu_assay.conformance.debug.text import ELEMENTS, lines
from npu_assay.conformance.record.certificate import Selection
from npu_assay.conformance.run.selection import all_cases, cases_near, select
from npu_assay.conformance.table import FOLDER, load_table
from tests.conformance.record.test_package import CASES, NEG, run

QUIET = Watching(lambda stage: None, lambda error: None)


def debugged(name: str, expression: str = NEG, level: str | None = None) -> Debugged:
    return debug(f"fake_backend:{name}", None, Selection(expression), level, (), QUIET)


@pytest.mark.parametrize("name", ["backend", "drifts", "refuses", "crashes"])
def test_the_result_is_what_a_run_records(name: str, tmp_path: Path) -> None:
    (recorded,) = run(tmp_path / "out", name, Selection(NEG)).results
    assert debugged(name).result == recorded


def test_stages_and_a_traceback_are_shown() -> None:
    found = call("certify", "fake_backend:crashes", "-k", NEG, "--debug")
    assert found.exit_code == 1
    stages = re.findall(r"^stage: (.*)$", found.stderr, re.MULTILINE)
    assert stages[0] == "passes" and stages[-1] == "judge"
    assert "Traceback (most recent call last):" in found.stderr and "fake_backend.py" in found.stderr
    assert "[crash] " in found.stdout and f"\nfail: {NEG}\n" in found.stdout
    assert found.stdout.endswith("in this process, without isolation: no record and no certificate\n")


def test_on_a_terminal_the_debugger_stands_where_the_error_was_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    places = list[str]()

    def opened(trace: TracebackType) -> None:
        while trace.tb_next is not None:
            trace = trace.tb_next
        places.append(Path(trace.tb_frame.f_code.co_filename).name)

    class Terminal:
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(pdb, "post_mortem", opened)
    monkeypatch.setattr("sys.stdin", Terminal())
    with pytest.raises(SystemExit) as ended:
        debugging.debug_one("fake_backend:crashes", None, (NEG, False, 0), "numbers", ())
    assert ended.value.code == 1 and places and set(places) == {"fake_backend.py"}


def test_a_right_case_is_exit_code_0_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = call("certify", "fake_backend:backend", "-k", NEG, "--debug", "-n", "1")
    assert found.exit_code == 0 and list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("-k", "neg"), "-k 'neg': found 55 cases (aten.neg.default/"),
        ((), "expected one: give its whole id with -k"),
        (("-k", "no_such"), "-k 'no_such': matches none of 110 case ids, which look like aten."),
        (("-k", NEG, "--shard", "1/2"), "--debug: found --shard, expected none"),
        (("-k", NEG, "--resume"), "--debug: found --resume, expected none"),
        (("-k", NEG, "--out", "x"), "--debug: found --out, expected none"),
        (("-k", NEG, "--table", "nothing"), "no table 'nothing'"),
    ],
)
def test_what_is_no_single_case_is_one_error(arguments: tuple[str, ...], told: str) -> None:
    found = call("certify", "fake_backend:backend", *arguments, "--debug")
    assert found.exit_code == 2 and told in found.output and found.output.count("\n") == 1, found.output


# ------------------------------------------------------------------------------------ what is shown


def test_both_answers_stand_beside_each_other() -> None:
    """Furthest off first: codes, exact codes, and reals with their bounds."""
    found = debugged("drifts")
    text = list(lines(found))
    head = next(
        place
        for place, line in enumerate(text)
        if line.split() == ["element", "found", "expected", "bound", "code", "exact", "code"]
    )
    rows = [line.split() for line in text[head + 1 : head + 1 + ELEMENTS]]
    distances = [abs(float(row[1]) - float(row[2])) for row in rows]
    assert distances == sorted(distances, reverse=True) and len(rows) == ELEMENTS
    assert abs(int(rows[0][4]) - int(rows[0][5])) == found.result.metrics["max_lsb"] == 1
    assert f"  the {ELEMENTS} of " in text[head + 1 + ELEMENTS]


def test_the_program_and_where_each_operator_runs_are_drawn() -> None:
    text = "\n".join(lines(debugged("backend")))
    assert "\n  subject = aten.neg.default(x) -> int8" in text
    assert re.search(r"aten_neg_default +=.*\[delegate 0\]$", text, re.MULTILINE)
    assert re.search(r"quantize_per_tensor.default\(x\) +\[torch\]$", text, re.MULTILINE)
    refused = "\n".join(lines(debugged("refuses")))
    assert "the backend says: reject; mood: found a bad one, but " in refused and "[delegate" not in refused


def test_a_case_that_does_not_run_says_so() -> None:
    assert "no outputs: nothing ran" in list(lines(debugged("crashes")))
    assert "no outputs: nothing ran" in list(lines(debugged("backend", level="tags")))


def test_the_command_shows_a_case() -> None:
    found = call("show", "fake_backend:drifts", NEG)
    assert found.exit_code == 0 and found.output.startswith(f"{NEG}\nthe table promises: accept; ")
    assert "stage:" not in found.output and "[gate1] " in found.output
    missing = call("show", "fake_backend:drifts", "aten.neg.default/operator/accept/basline")
    assert missing.exit_code == 2 and "matches none of " in missing.output


# ------------------------------------------------------------------------------------ few cases instead of all


@pytest.mark.long
@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.toml")), ids=lambda path: path.stem)
@pytest.mark.sampled(1)
def test_a_row_has_its_cases_without_the_others(path: Path) -> None:
    """So a case is found by its id among those of its row alone."""
    table = load_table(str(path))
    every = all_cases(table)
    for row in table.every_row:
        own = tuple(case for case in every if case.row == row.name)
        assert cases_near(table, own[len(own) // 2].id) == own if own else True, row.name


def test_any_other_expression_is_looked_for_in_all() -> None:
    table = load_table(fake_backend.TABLE)
    for expression in (None, "baseline", "neg or baseline", "not neg", "(neg)", "aten.neg.default/no/such/case", "/"):
        assert cases_near(table, expression) == CASES


@pytest.mark.parametrize(
    "expression", ["abs", "aten.abs.default", "squeeze", "abs and max_rank", "outside and ABS", "abs and neg"]
)
def test_words_that_name_operators_are_looked_for_in_their_rows(expression: str) -> None:
    table = load_table("neutron@1.3")
    few, every = cases_near(table, expression), all_cases(table)
    assert len(few) < len(every) / 10 and select(few, expression) == select(every, expression)


def test_verify_of_one_case_makes_those_of_its_row_alone(tmp_path: Path) -> None:
    """And loads no torch."""
    run(tmp_path / "out", selection=Selection(NEG))
    program = (
        "import sys, datetime\nfrom pathlib import Path\nfrom npu_assay.conformance.verify import verification\n"
        "verification.all_cases = None\n"
        f"found = verification.verify(Path({str(tmp_path / 'out')!r}), datetime.date(2026, 6, 1))\n"
        "assert found.problems == () and found.verdict is not None, found\n"
        "print(len({name.partition('.')[0] for name in sys.modules} & {'torch'}))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.stdout == "0\n", done.stderr


# ------------------------------------------------------------------------------------ a table without its backend


@pytest.mark.parametrize("name", sorted(registered()))
def test_a_stated_table_is_the_backend_s(name: str) -> None:
    ours = registered()[name].value.startswith("npu_assay.")
    assert stated_table(name) in (load_backend(name).table, *([] if ours else [None]))


@pytest.mark.parametrize(
    ("text", "table"),
    [
        ('backend = Backend(name="x", table="x@1")', "x@1"),
        ('backend = Backend(name="x", table="x@1")\nbackend = Backend(name="x", table="x@2")', None),
        ('if here:\n    backend = Backend(table="x@1")\nelse:\n    backend = other', None),
        ('backend = Backend("x", "x@1", Partitioner)', "x@1"),
        ('backend = Backend("x", *rest)', None),
        ('backend = Backend(name="x", table=TABLE)', None),
        ('TABLE = "x@1"\nbackend = Backend(name="x", table=TABLE)', "x@1"),
        ('TABLE = "x@1"\nTABLE += "0"\nbackend = Backend(name="x", table=TABLE)', None),
        ('TABLE = str(Path(__file__).with_name("x@1.toml"))\nbackend = Backend("x", TABLE)', "HERE/x@1.toml"),
        ('TABLE = str(Path(__file__).parent / "x@1.toml")\nbackend = Backend("x", TABLE)', "HERE/x@1.toml"),
        ('TABLE = str(Path(__name__).with_name("x@1.toml"))\nbackend = Backend("x", TABLE)', None),
        ('backend = Backend("x", 3)', None),
        ('backend = Backend(name="x", table=f"x@{version}")', None),
        ('backend = made(table="x@1")', None),
        ('backend = replace(other, name="x", table="x@2")', "x@2"),
        ('backend = replace(other, name="x")', None),
        ('backend: Backend = Backend(table="x@1")', "x@1"),
        ("other = 1", None),
        ("backend = (", None),
    ],
)
def test_only_plain_words_count(text: str, table: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = tmp_path / "module.py"
    module.write_text(f"from npu_assay.partitioners.exir import Backend\nfrom dataclasses import replace\n{text}")
    monkeypatch.setattr(stated, "_source", lambda name: module)
    assert stated_table("somewhere:backend") == (table and table.replace("HERE", str(tmp_path)))


@pytest.mark.parametrize(
    "imports",
    ["from mine import Backend", "from .npu_assay.partitioners.exir import Backend", "class Backend: pass", ""],
)
def test_another_thing_of_that_name_says_nothing(imports: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "other.py").write_text(f'{imports}\nbackend = Backend("x", "x@1")')
    assert stated_table("other:backend") is None


def test_the_table_of_a_backend_of_one_s_own_is_read_and_nothing_is_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where it is installed, on the path, or beside the current directory; nor is a package run that holds it."""
    assert stated_table("fake_backend:backend") == load_backend("fake_backend:backend").table
    assert (
        stated_table("fake_backend:no_such") is None and stated_table("no_such") is None and stated_table(":") is None
    )
    monkeypatch.chdir(tmp_path)
    (tmp_path / "outer" / "inner").mkdir(parents=True)
    (tmp_path / "outer" / "__init__.py").write_text("raise SystemExit")
    text = 'from npu_assay.partitioners.exir.backend import Backend\nbackend = Backend("x", "x@1")\nraise SystemExit'
    (tmp_path / "outer" / "inner" / "__init__.py").write_text(text)
    assert stated_table("outer.inner:backend") == "x@1"
    assert stated_table("outer.nothing:backend") is None and stated_table("outer.inner.nothing:backend") is None
    assert call("show", "no_such").exit_code == 2


def test_a_row_is_shown_without_torch() -> None:
    program = (
        "import sys\nfrom npu_assay.conformance.report.listing import table_text\n"
        "assert 'aten.cat.default' in table_text('npu_assay.partitioners.neutron:backend', 'cat', None)\n"
        "print('torch' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.stdout == "False\n", done.stderr


# ------------------------------------------------------------------------------------ the page


def test_the_page_s_commands_print_what_it_says() -> None:
    """Line by line and in order; "..." stands for what was left out."""
    text = (ROOT / "docs" / "debugging.md").read_text(encoding="utf-8")
    found = re.findall(r"^    \$ assay (.*)\n((?:    .*\n)*)", text, re.MULTILINE)
    assert len(found) == 2
    for arguments, printed in found:
        done = call(*shlex.split(arguments))
        assert done.exit_code == (1 if "--debug" in arguments else 0), done.output
        rest = [" ".join(line.split()) for line in done.stdout.splitlines()]
        for line in printed.splitlines():
            form = re.compile(".*".join(map(re.escape, " ".join(line.split()).split("..."))))
            place = next((i for i, text in enumerate(rest) if form.fullmatch(text)), None)
            assert place is not None, f"{line}\n{done.stdout}"
            rest = rest[place + 1 :]
