"""Random programs: the same for a seed wherever they run, judged, made small when they fail, never kept in memory."""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import fake_backend
import pytest
from torch import fx
from torch.export import ExportedProgram

from npu_assay.conformance.backend.loading import load_backend
from npu_assay.conformance.fuzz.answering import quantizes
from npu_assay.conformance.fuzz.names import Name, is_program, parse
from npu_assay.conformance.fuzz.observe import run_program_case
from npu_assay.conformance.fuzz.programs import Programs
from npu_assay.conformance.fuzz.reductions import reductions
from npu_assay.conformance.fuzz.sketch import count, kinds
from npu_assay.conformance.programs.graph import Case, Fill, Graph, Quant, Ref, Step, Value
from npu_assay.conformance.record.certificate import Selection
from npu_assay.conformance.record.names import CERTIFICATE, FUZZ, FUZZ_JOURNAL, JOURNAL, RESULTS, PackageError
from npu_assay.conformance.record.results import CaseResult, from_line, to_line
from npu_assay.conformance.report.data import Report
from npu_assay.conformance.run.selection import SelectionError, all_cases
from npu_assay.conformance.run.session import Request, assay
from npu_assay.conformance.table import Table, load_table
from npu_assay.conformance.verify.verification import verify
from npu_assay.partitioners.ethosu import ethos_u85
from npu_assay.partitioners.exir import Backend, PartitionResult
from npu_assay.partitioners.exir.backend.partitioner import DELEGATION_TAG
from npu_assay.partitioners.neutron import NeutronPartitioner
from npu_assay.partitioners.neutron import backend as neutron

TODAY = datetime.date(2026, 6, 1)
OWN = ("neutron:backend", "xnnpack:backend", "ethosu:ethos_u55", "ethosu:ethos_u85")


@cache
def programs(table: str) -> Programs:
    return Programs(all_cases(load_table(table)))


def observed(backend: Backend, name: str) -> CaseResult:
    case, table = programs(backend.table).case(name), load_table(backend.table)
    return run_program_case(case, backend, table)


# ------------------------------------------------------------------------------------ drawing


def test_names() -> None:
    name = Name(7, 12, (3, 0))
    assert str(name) == "fuzz/7/000012/3.0" and parse(str(name)) == name
    assert is_program("fuzz/7/12") and not is_program("fuzz/7") and not is_program("aten.abs.default/x/y/z")


def test_a_program_follows_from_its_name() -> None:
    table = load_table(fake_backend.TABLE)
    a, b = (Programs(all_cases(table)) for _ in range(2))
    names = [f"fuzz/3/{number}" for number in range(40)]
    backwards = {name: b.case(name).graph for name in reversed(names)}
    assert all(a.case(name).graph == backwards[name] for name in names)
    assert len(set(backwards.values())) > 30
    assert a.case("fuzz/4/0").graph != a.case("fuzz/3/0").graph


def test_programs_have_one_or_many_operators_from_all_over_the_table() -> None:
    drawn = [programs("neutron@1.3").case(f"fuzz/0/{number}") for number in range(400)]
    steps = [len(case.graph.steps) for case in drawn]
    assert {1, 2, 3, 4, 5, 6} <= set(steps)
    used = {step.op for case in drawn for step in case.graph.steps}
    assert len(used) > 30
    expected = [case.expect for case in drawn]
    assert min(expected.count(which) for which in ("accept", "reject", "unspecified")) > 5
    shared = [case for case in drawn if len(case.graph.outputs) > 1]
    assert len(shared) > 20


@pytest.mark.long
@pytest.mark.parametrize("table", ["neutron@1.3", "neutron@1.4", "xnnpack@1.5", "ethos_u55@1.5", "ethos_u85@1.5"])
def test_a_round_of_programs_is_about_every_operator_in_every_precision(table: str) -> None:
    rows = load_table(table).rows
    promised = {(row.name, precision) for row in rows for precision in row.precisions or (None,)}
    for first in (0, 1000):
        drawn = [programs(table).case(f"fuzz/6/{first + number}") for number in range(programs(table).round)]
        assert promised <= {(case.row, case.precision) for case in drawn}
        assert all(case.row in _operators(case, load_table(table)) for case in drawn)


def _operators(case: Case, table: Table) -> set[str]:
    """The rows that the steps of a program fall under."""
    written = {step.op for step in case.graph.steps}
    return {row.name for row in table.rows if row.operator in written}


def size(graph: Graph) -> int:
    return sum(count(value.shape) for value in graph.values)


def test_other_sizes_may_leave_fewer_results() -> None:
    """A split of fewer numbers has fewer pieces: what another operator takes of them may be gone."""
    x, piece = Value("x", (4, 2), None), Ref("pieces", 1)
    steps = (
        Step("pieces", "aten.split_copy.Tensor", (Ref("x"), 2)),
        Step("subject", "aten.abs.default", (piece,)),
    )
    graph = Graph((x,), steps, (Ref("subject"),))
    assert kinds(graph) is not None
    assert kinds(replace(graph, values=(replace(x, shape=(2, 2)),))) is None


@pytest.mark.parametrize(("sizes", "fit"), [((2, 2, 2, 2), True), ((1, 2, 2, 2), False), ((2, 2, 2, 3), False)])
def test_a_batch_norm_has_its_numbers_for_each_channel(sizes: tuple[int, ...], fit: bool) -> None:
    """torch does not see to it, and reads what lies behind them."""
    names = ("factors", "shifts", "means", "variances")
    values = [Value("x", (1, 2, 3), None)]
    values += [Value(name, (size,), None, constant=True) for name, size in zip(names, sizes, strict=True)]
    args = (*(Ref(value.name) for value in values), 0.1, 1e-3)
    step = Step("subject", "aten._native_batch_norm_legit_no_training.default", args)
    assert (kinds(Graph(tuple(values), (step,), (Ref("subject"),))) is not None) == fit


@pytest.mark.parametrize(("scale", "fits"), [(0.1, True), (2.0**-127, True), (2.0**-128, False), ((0.1, 1e-40), False)])
def test_torch_has_no_codes_where_a_scale_has_no_reciprocal(scale: float | tuple[float, ...], fits: bool) -> None:
    """It multiplies by float32(1 / scale), an infinity, which makes NaN of zeros."""
    x = Value("x", (1, 2), Quant(scale, axis=1 if isinstance(scale, tuple) else None))
    assert quantizes(Graph((x,), (), (Ref("x"),))) == fits


def test_reductions_are_smaller_and_end() -> None:
    graph = programs("neutron@1.3").case("fuzz/0/3").graph
    rounds = 0
    while (smaller := next(reductions(graph), None)) is not None:
        assert kinds(smaller) is not None
        fewer = len(smaller.steps) < len(graph.steps) or len(smaller.outputs) < len(graph.outputs)
        assert fewer or size(smaller) < size(graph) or smaller != graph
        graph, rounds = smaller, rounds + 1
        assert rounds < 200
    assert rounds and len(graph.steps) <= 1


def test_there_is_no_such_reduction() -> None:
    with pytest.raises(SelectionError, match="-k fuzz/0/000001/9999: found no such reduction"):
        table = load_table(fake_backend.TABLE)
        Selection("fuzz/0/1/9999").of(table, all_cases(table))


@pytest.mark.parametrize("backend", ["neutron", "xnnpack", "ethos-u55"])
def test_one_of_them_is_run_again_by_its_name(backend: str, tmp_path: Path) -> None:
    assay(Request(backend, None, Selection("fuzz/7/000003"), 1, tmp_path / "out"), Told(), lambda: TODAY)
    (line,) = (tmp_path / "out" / RESULTS).read_text().splitlines()
    assert from_line(line).failures == ()


# ------------------------------------------------------------------------------------ judging


@pytest.mark.long
@pytest.mark.parametrize("spec", OWN)
@pytest.mark.sampled(1)
def test_the_own_backends_stand_random_programs(spec: str) -> None:
    backend = load_backend(f"npu_assay.partitioners.{spec}")
    found = [observed(backend, f"fuzz/11/{number}") for number in range(25)]
    assert [(r.case, r.failures) for r in found if r.failures] == []
    assert {r.verdict for r in found} >= {"accept", "partial"}


class _Writes(fake_backend.FakePartitioner):
    """Notes something on a node."""

    def partition(self, exported_program: ExportedProgram) -> PartitionResult:
        next(iter(exported_program.graph.nodes)).meta["seen"] = True
        return super().partition(exported_program)


class _Grows(fake_backend.FakePartitioner):
    """Tags nothing where something is tagged."""

    def partition(self, exported_program: ExportedProgram) -> PartitionResult:
        tagged = any(node.meta.get(DELEGATION_TAG) for node in exported_program.graph.nodes)
        result = super().partition(exported_program)
        for node in exported_program.graph.nodes if tagged else ():
            node.meta.pop(DELEGATION_TAG, None)
        return replace(result, partition_tags={}) if tagged else result


class _Lumps(NeutronPartitioner):
    """One delegate for everything, whatever stands between."""

    def partition(self, exported_program: ExportedProgram) -> PartitionResult:
        result = super().partition(exported_program)
        for node in exported_program.graph.nodes:
            if node.meta.get(DELEGATION_TAG):
                node.meta[DELEGATION_TAG] = "tag0"
        return result


class _Turns(fake_backend.FakePartitioner):
    """Another answer every third time."""

    turns = itertools.count()

    def takes(self, node: fx.Node) -> bool:
        return super().takes(node) and next(self.turns) % 3 < 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda: replace(fake_backend.backend, partitioner=_Writes),
            "partition: the partitioner changed something else than tags",
        ),
        (
            lambda: replace(fake_backend.backend, partitioner=_Grows),
            "partition: tagging the tagged program again gave other tags",
        ),
        (lambda: replace(fake_backend.backend, partitioner=_Turns), "determinism: the same program was tagged"),
        (lambda: replace(fake_backend.backend, partitioner=fake_backend.Crashes), "crash: partition: KeyError"),
        (lambda: replace(fake_backend.backend, partitioner=fake_backend.Refuses), "tag: reject, expected accept"),
        (lambda: replace(fake_backend.backend, runtime=fake_backend.Drifts()), "gate1: out"),
        (lambda: load_backend("npu_assay.faults.neutron:bias_dropped"), "gate1: out"),
    ],
)
def test_a_fault_is_noticed(change: Callable[[], Backend], message: str) -> None:
    backend = change()
    found = (failure for number in range(60) for failure in observed(backend, f"fuzz/0/{number}").failures)
    assert any(f"{failure.check}: {failure.message}".startswith(message) for failure in found)


@pytest.mark.long
def test_partitions_that_wait_for_each_other_are_noticed() -> None:
    lumps = replace(neutron, partitioner=_Lumps)
    found = [f.message for number in range(120) for f in observed(lumps, f"fuzz/0/{number}").failures]
    assert any(message.startswith("found a cycle of partitions: ") for message in found)


# ------------------------------------------------------------------------------------ a run


class Told:
    """Counts, and presses Ctrl-C after so many."""

    def __init__(self, stop: int = 0) -> None:
        self.begun = self.ended = 0
        self.stop = stop

    def started(self, cases: int) -> None:
        self.begun = cases

    def finished(self, result: CaseResult) -> None:
        self.ended += 1
        if self.ended == self.stop:
            raise KeyboardInterrupt


CASES, PROGRAMS = 4, 30  # of the table that are selected, and random ones


def run(folder: Path, told: Told | None = None, backend: str = "fake_backend:backend", **changes: object) -> Report:
    chosen = Selection("baseline", seed=5)
    asked = Request(backend, None, chosen, 1, folder, fuzz=PROGRAMS)
    return assay(replace(asked, **changes), told or Told(), lambda: TODAY)  # type: ignore[arg-type]  # its fields


@pytest.fixture(scope="module", autouse=True)
def small_blocks() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("npu_assay.conformance.fuzz.record.BLOCK", 8)
        yield


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    run(folder)
    return folder


def same(folder: Path, whole: Path) -> bool:
    return all((folder / name).read_bytes() == (whole / name).read_bytes() for name in (FUZZ, RESULTS, CERTIFICATE))


def test_the_results_do_not_depend_on_the_number_of_processes(whole: Path, tmp_path: Path) -> None:
    run(tmp_path / "out", workers=2)
    assert same(tmp_path / "out", whole)
    lines = (whole / FUZZ).read_text().splitlines()
    assert [f'"case":"fuzz/5/{number:06}"' in line for number, line in enumerate(lines)] == [True] * PROGRAMS
    assert not (whole / FUZZ_JOURNAL).exists() and not (whole / JOURNAL).exists()


@pytest.mark.long
@pytest.mark.parametrize("half", [0, 40])
def test_an_interrupted_run_goes_on(whole: Path, tmp_path: Path, half: int) -> None:
    out = tmp_path / "out"
    first = Told(stop=20)
    with pytest.raises(KeyboardInterrupt):
        run(out, first)
    data = (out / FUZZ_JOURNAL).read_bytes()
    (out / FUZZ_JOURNAL).write_bytes(data[: len(data) - half])
    second = Told()
    run(out, second, resume=True)
    assert second.begun == second.ended == first.begun - 20 + bool(half)
    assert same(out, whole)


def test_other_programs_do_not_go_on(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with pytest.raises(KeyboardInterrupt):
        run(out, Told(stop=20))
    with pytest.raises(PackageError, match="random programs: found 30, expected 31"):
        run(out, resume=True, fuzz=31)
    with pytest.raises(PackageError, match="seed: found 5, expected 6"):
        run(out, resume=True, selection=Selection("baseline", seed=6))
    text = (out / FUZZ_JOURNAL).read_text().replace("fuzz/5/000002", "fuzz/5/000003")
    (out / FUZZ_JOURNAL).write_text(text)
    with pytest.raises(PackageError, match="leave out --resume to run again"):
        run(out, resume=True)


def test_codes_may_leave_where_an_operator_is_defined(monkeypatch: pytest.MonkeyPatch) -> None:
    """erf of a little is a little in torch, and code 0 on the device, which has no logarithm."""
    q, x = Quant(0.05, 3), Value("x", (1, 4), Quant(0.05, 3), Fill(seed=836967071))
    steps = (
        Step("a", "aten.remainder.Scalar", (Ref("x"), 1.5), (), q),
        Step("b", "aten.erf.default", (Ref("a"),), (), Quant(1 / 120, 0)),
        Step("c", "aten.log10.default", (Ref("b"),), (), q),
    )
    name = str(Name(0, 0))
    case = Case(name, steps[-1].op, "fuzz", "random", "unspecified", None, Graph((x,), steps, (Ref("c"),)), "")
    table = load_table(ethos_u85.table)
    assert run_program_case(case, ethos_u85, table).failures == ()
    monkeypatch.setattr("npu_assay.conformance.fuzz.observe._has_golden", lambda *_: True)
    assert run_program_case(case, ethos_u85, table).failures == ()  # the golden is -inf there, and knows a bound


@pytest.mark.long
def test_a_failing_program_is_made_small(tmp_path: Path) -> None:
    report = run(tmp_path / "out", backend="fake_backend:drifts")
    assert report.certificate.fuzz is not None and report.certificate.fuzz.fail > 10
    assert f"{report.certificate.fuzz.fail} of 30 random programs fail" in report.certificate.objections
    for program in report.programs:
        assert 1 <= program.text.count(" = aten.") <= 2
        assert program.small.status == "fail" and program.small.case in (tmp_path / "out" / "report.md").read_text()
        assert to_line(observed(fake_backend.drifts, program.small.case)) == to_line(program.small)
        assert to_line(program.small) in (tmp_path / "out" / FUZZ).read_text().splitlines()
    again = run(tmp_path / "again", backend="fake_backend:drifts", selection=Selection(report.programs[0].small.case))
    assert [r.failures for r in again.results] == [report.programs[0].small.failures]


@pytest.mark.slow
def test_a_random_program_that_dies_is_made_small(tmp_path: Path) -> None:
    report = run(tmp_path / "out", backend="fake_backend:dies", fuzz=6)
    (program,) = report.programs
    assert program.text.count(" = aten.") == 1 and "aten.neg.default" in program.text
    assert [f.check for f in program.small.failures] == ["crash"]


@pytest.mark.parametrize(
    ("edit", "problem"),
    [
        (lambda lines: lines[:-1], "has 0 of 29"),
        (lambda lines: [lines[1], lines[0], *lines[2:]], "found fuzz/5/000001, expected fuzz/5/000000"),
        (lambda lines: [lines[0].replace("accept", "reject"), *lines[1:]], "edited"),
        (lambda lines: [lines[0], *lines], "found fuzz/5/000000, expected fuzz/5/000001"),
    ],
)
def test_an_edited_file_is_noticed(
    whole: Path, tmp_path: Path, edit: Callable[[list[str]], list[str]], problem: str
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    for file in whole.iterdir():
        (out / file.name).write_bytes(file.read_bytes())
    assert verify(out, TODAY).problems == ()
    lines = (out / FUZZ).read_text().splitlines()
    (out / FUZZ).write_text("".join(f"{line}\n" for line in edit(lines)))
    found = verify(out, TODAY).problems
    assert any(problem in text for text in found) and any("sha256 differs" in text for text in found)
