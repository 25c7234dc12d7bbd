"""`assay mutate`: every fault has an outcome, whatever the broken backend does to its process."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from npu_assay.conformance.cli import main
from npu_assay.conformance.mutation.run import Job, run_faults
from npu_assay.conformance.mutation.trial import Outcome

SPEC, FAULTS = "fake_backend:backend", "fake_backend:catalogue"


@pytest.fixture(scope="module")
def outcomes() -> dict[str, Outcome]:
    from fake_backend import TABLE

    names = ["device/rounding/one_off", "partitioner/other/ends", "partitioner/other/hangs", "compiler/other/none"]
    return {one.name: one for one in run_faults(Job(SPEC, TABLE, FAULTS, 1000, 5.0), names, 2)}


@pytest.mark.long
def test_a_fault_is_noticed_by_what_is_there_for_it(outcomes: dict[str, Outcome]) -> None:
    assert "gate1" in outcomes["one_off"].checks and not outcomes["one_off"].missed


@pytest.mark.parametrize("name", ["ends", "hangs"])
def test_a_fault_that_never_answers_is_noticed_by_that(name: str, outcomes: dict[str, Outcome]) -> None:
    assert outcomes[name].checks == {"crash": ""}
    assert "ended without an answer, or gave none within 5 s" in outcomes[name].message


def test_no_fault_is_not_noticed(outcomes: dict[str, Outcome]) -> None:
    """The right backend under another name: the suite has nothing to say, after all of its cases."""
    assert not outcomes["none"].killed and outcomes["none"].cases > 20


@pytest.mark.long
def test_survivors_decide_the_exit_code() -> None:
    def run(expression: str) -> tuple[int, str]:
        options = ["mutate", SPEC, "--faults", FAULTS, "-n", "1", "-k", expression, "--json"]
        found = CliRunner().invoke(main, options)
        return found.exit_code, found.stdout

    assert run("one_off")[0] == 0
    code, text = run("none")
    assert code == 1 and "none" in json.dumps(json.loads(text)["survivors"])


@pytest.mark.parametrize("seconds", ["0", "nan", "inf", "1e300"])
def test_a_wrong_timeout_is_a_usage_error(seconds: str) -> None:
    found = CliRunner().invoke(main, ["mutate", SPEC, "--faults", FAULTS, "--timeout", seconds])
    assert found.exit_code == 2 and "--timeout" in found.output


@pytest.mark.parametrize(
    ("mistyped", "told"),
    [("roundng", "faults, did you mean 'rounding'?"), ("zzzz", "faults; an id looks like ")],
)
def test_a_mistyped_fault_is_told_what_is_nearest(mistyped: str, told: str) -> None:
    found = CliRunner().invoke(main, ["mutate", SPEC, "--faults", FAULTS, "-k", mistyped])
    assert found.exit_code == 2 and f"-k '{mistyped}': matches none of " in found.stderr and told in found.stderr
