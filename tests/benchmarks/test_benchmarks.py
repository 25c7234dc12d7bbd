"""The commands that print the numbers of README and docs run, and print them: here with little to measure."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest
from places import ROOT, SHARED

NUMBER = r" *(-?[\d.]+|nan)"  # a difference of times that are too short to tell may be negative, or zero: no ratio
RATIOS = f"ratios: processor time{NUMBER}, memory of the run{NUMBER}, of a worker{NUMBER}"

# By command: what it must print, which are the numbers that the documents give.
PRINTED: dict[str, tuple[str, ...]] = {
    "cases.py --cases 40 --sizes 5 10": (
        rf"40 cases, 2 workers:{NUMBER} cases per second, 0 failed",
        rf"5 cases, 1 process:{NUMBER} ms of processor time a case",
        rf"10 cases, 1 process:{NUMBER} ms of processor time a case",
    ),
    "simulator.py --rounds 1 deep_autoencoder": (
        rf"Ethos-U NPU{NUMBER} ms{NUMBER} x torch",
        rf"Ethos-U with reading{NUMBER} ms{NUMBER} x torch",
        rf"Neutron NPU{NUMBER} ms{NUMBER} x torch",
        rf"XNNPACK device{NUMBER} ms{NUMBER} x torch",
    ),
    "program_files.py deep_autoencoder": (
        rf"three_operators{NUMBER} ms{NUMBER} ms{NUMBER}{NUMBER}",
        rf"deep_autoencoder{NUMBER} ms{NUMBER} ms{NUMBER}{NUMBER}",
    ),
    "fuzz.py --backend fake_backend:backend --workers 1 --sizes 3 6": (
        rf"6 programs:{NUMBER} ms each,{NUMBER} ms of processor time, most{NUMBER} MiB in the run,{NUMBER} MiB in",
        RATIOS,
    ),
    "hostile_files.py --count 150 --seed 1 -n 2": (
        "150 files of seed 1, 1[0-9][0-9] operators",
        rf"does not fit{NUMBER}",
        rf"not a valid .pte file{NUMBER}",
        rf"operator that files may not call{NUMBER}",
        rf"ran{NUMBER}",
    ),
    "hostile_models.py --count 100 --seed 1 -n 1": (
        "100 files of seed 1",
        rf"refused{NUMBER}",
        rf"ran{NUMBER}",
    ),
    "certify.py . --backend neutron -k aten.abs.default/operator/accept": (
        rf"neutron:{NUMBER} s before,{NUMBER} s now, ratio{NUMBER}",
        rf"together:{NUMBER} s before,{NUMBER} s now, ratio{NUMBER}",
    ),
    "slowest_cases.py -k aten.abs.default/operator/accept --most 1": (
        rf"\d+ cases,{NUMBER} s of processor time",
        rf"^{NUMBER} s  aten\.abs\.default/operator/accept/",
    ),
    "board.py --runs 3 --cases 50 -n 1": (rf"{NUMBER} s",),
    "report.py --rounds 0": (rf"10000 failing cases of ethos_u85@1.5: \d\.\d+ MB, made in{NUMBER} s",),
    "start.py --rounds 1": (
        rf"{NUMBER} s,{NUMBER} s of processor, +0 modules of torch: assay --help\n",
        rf"{NUMBER} s,{NUMBER} s of processor, +0 modules of torch: assay list\n",
        rf"{NUMBER} s,{NUMBER} s of processor, +0 modules of torch: assay verify DIR/one\n",
        rf"{NUMBER} s,{NUMBER} s of processor, +[1-9]\d* modules of torch: assay verify DIR/off_by_one\n",
    ),
    "devices.py -k torch/spectrogram --rounds 1 --backend ethos-u85": (
        rf"torch/spectrogram +torch{NUMBER} ms; x torch: ethos-u85{NUMBER}",
        rf"convolutional +ethos-u85{NUMBER} x torch, 1 models",
    ),
    "strangers_table.py -k aten._softmax": (
        r"aten\._softmax\.default: 12 of 14 in",
        r"1 rows, 14 changes: 12 killed, 2 equivalent, 0 live, 0 wrong",
    ),
    "zoo.py --out /dev/null -k torch/spectrogram --backend xnnpack": (
        rf"torch/spectrogram +xnnpack +6 of 6 +1 delegates 100\.0 %{NUMBER} s",
    ),
}


def output(command: str) -> str:
    """What a benchmark prints, run as the documents have it."""
    script, *arguments = command.split()
    done = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / script), *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(SHARED)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "command", [pytest.param(one, marks=[pytest.mark.slow] * one.startswith("simulator")) for one in PRINTED]
)
def test_a_benchmark_prints_its_numbers(command: str) -> None:
    found = output(command)
    for line in PRINTED[command]:
        assert re.search(line, found, re.MULTILINE), found


def test_every_benchmark_is_run() -> None:
    """Those that need ExecuTorch run beside it."""
    scripts = {path.name for path in (ROOT / "benchmarks").glob("*.py") if "def main" in path.read_text()}
    assert scripts == {command.split()[0] for command in PRINTED} | {"exir.py", "peers.py", "zoo_executorch.py"}
