"""A mistake of the user is told before torch is loaded, in the words in which the run would tell it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner

from npu_assay.conformance.cli import main
from npu_assay.conformance.commands import early_checks
from npu_assay.conformance.commands.early_checks import tell_mistakes

WITHOUT_TORCH = """
import sys
class No:
    def find_spec(self, name, path=None, target=None):
        assert name.partition(".")[0] != "torch", "torch was loaded"
sys.meta_path.insert(0, No())
from npu_assay.conformance.cli import main
main(sys.argv[1:])
"""
MISTAKES = [
    (("certify", "nosuch"), "no backend 'nosuch'; known: ethos-u55"),
    (("certify", "neutron-1.4", "-k", "zzzz"), "-k 'zzzz': matches none of "),
    (("certify", "ethos-u85", "-k", "relu and zzzz"), "-k 'relu and zzzz': matches none of "),
    (("certify", "xnnpack", "-k", "a(b"), "-k 'a(b': found '(', expected 'and', 'or' or the end"),
    (("certify", "neutron", "--table", "nosuch"), "no table 'nosuch'; known: "),
    (("certify", "neutron", "--waivers", "nosuch.toml"), "nosuch.toml: cannot read the waivers"),
    (("certify", "neutron", "--debug", "-k", "zzzz"), "-k 'zzzz': matches none of "),
    (("offer", "nosuch"), "no backend 'nosuch'"),
    (("reach", "neutron", "-k", "zzzz"), "-k 'zzzz': matches none of "),
    (("reach", "neutron", "-k", "softmx"), "-k 'softmx': matches none of 3913 case ids; nearest: softmax"),
    (("export", "neutron", "cases", "-k", "softmx"), "-k 'softmx': matches none of 3913 case ids; nearest: softmax"),
    (("export", "neutron", "cases", "-k", "zzzz"), "-k 'zzzz': matches none of "),
    (("show", "neutron", "abs/max_rank/outside/rank_99"), "-k 'abs/max_rank/outside/rank_99': matches none of "),
    (("mutate", "nosuch"), "no backend 'nosuch'"),
    (("explain", "nosuch.pt2", "--backend", "neutron"), "nosuch.pt2: found no such file"),
    (("explain", "nosuch.pt2", "--backend", "nosuch"), "no backend 'nosuch'"),
    (("reduce", "nosuch.pt2", "--backend", "neutron", "--of", "crash"), "nosuch.pt2: found no such file"),
]


def alone(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A program in an interpreter of its own."""
    return subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=False)


@pytest.mark.parametrize(("arguments", "told"), MISTAKES, ids=[" ".join(words) for words, _ in MISTAKES])
def test_a_mistake_is_told_without_torch(arguments: tuple[str, ...], told: str, tmp_path: Path) -> None:
    done = alone(WITHOUT_TORCH, *arguments)
    assert done.returncode == 2 and done.stdout == "", done.stderr
    assert done.stderr.startswith(f"assay: {told}") and len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("arguments", [words for words, _ in MISTAKES if words[:2] != ("certify", "ethos-u85")])
def test_the_command_itself_says_the_same(
    arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """In this process, where torch is loaded, nobody looks beforehand."""
    monkeypatch.chdir(tmp_path)
    assert torch.__name__ in sys.modules
    found = CliRunner().invoke(main, [*arguments])
    assert found.exit_code == 2 and found.stderr == alone(WITHOUT_TORCH, *arguments).stderr


def test_what_is_right_is_not_held_up() -> None:
    """Nor does the command load what judges, which the process of a backend must not have."""
    program = """
import sys
from npu_assay.conformance.commands.early_checks import tell_mistakes
tell_mistakes("neutron", None, "abs and outside")
tell_mistakes("neutron", None, "aten.abs.default/operator/accept/baseline")
tell_mistakes("neutron-1.4", None, "bmm")
tell_mistakes("neutron", "neutron@1.4", "fuzz/1/2")
tell_mistakes("fake_backend:backend", None, "zzzz")
for expression in ("aten.mean.dim/operator/variation/argument.keepdim_False.baseline", "mean and variation",
                   "regression/arm-clamp-crossed-bounds"):
    tell_mistakes("neutron", None, expression)
from npu_assay.conformance.isolation.base_process import JUDGES
print([name for name in (*JUDGES, "torch") if name in sys.modules])
"""
    done = alone(program)
    assert done.stdout == "[]\n", done.stderr


def test_reading_options_loads_nothing_that_judges() -> None:
    """Or torch would be started twice: for the process of a backend a new interpreter, not a copy of this one."""
    program = """
import sys
from npu_assay.conformance.cli import main
given = "neutron --shard 1/2 --level tags -k abs --seed 3 --fuzz 2 --timeout 9 -n 1 --junit j.xml --out o --smoke"
main.commands["certify"].make_context("certify", given.split())
from npu_assay.conformance.isolation.base_process import JUDGES
print([name for name in (*JUDGES, "torch") if name in sys.modules])
"""
    done = alone(program)
    assert done.stdout == "[]\n", done.stderr


def test_a_look_that_fails_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may need torch, which it does not get: then the command finds out."""
    assert early_checks._of_fork(lambda: "told") == "told"
    assert early_checks._of_fork(lambda: str(__import__("torch"))) == ""
    monkeypatch.setattr(early_checks, "_of_fork", lambda found: pytest.fail("it looked"))
    tell_mistakes("nosuch", None)
