"""How long commands take from the shell's view, one case and the verification of its record among them.

Of the two records, one measures codes off by one, whose limits follow from goldens. A run remembers these, here in a
cache folder of its own.

Run from the repository:

    python benchmarks/start.py

Printed: the medians of the seconds on the clock and of the processor, and the modules of torch that were loaded.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time

CASE = "aten.abs.default/operator/accept/baseline"
OFF_BY_ONE = "aten.avg_pool2d.default/operator/accept/baseline"
LOADED = """
import sys
from npu_assay.conformance.cli import main
try:
    main(sys.argv[1:])
finally:
    print(sum(name.split(".")[0] == "torch" for name in sys.modules))
"""


def commands(folder: str) -> list[list[str]]:
    """What is measured; `verify` reads the record of the one before."""
    one_case = ["certify", "neutron", "-k", CASE]
    one, off_by_one = f"{folder}/one", f"{folder}/off_by_one"
    return [
        ["--help"],
        ["list"],
        ["show", "neutron", "abs"],
        ["show", "neutron", CASE],
        [*one_case, "--debug"],
        [*one_case, "--out", one],
        ["verify", one],
        ["certify", "neutron", "-k", OFF_BY_ONE, "--out", off_by_one],
        ["verify", off_by_one],
    ]


def processor() -> float:
    """Seconds of the processor that children have taken."""
    used = os.times()
    return used.children_user + used.children_system


def seconds(command: list[str]) -> tuple[float, float]:
    """One start: on the clock, and of the processor."""
    begin, used = time.perf_counter(), processor()
    program = [sys.executable, "-m", "npu_assay", *command]
    subprocess.run(program, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # verify: 1, a part never certifies
    return time.perf_counter() - begin, processor() - used


def torch_modules(command: list[str]) -> int:
    """How many modules of torch the command loads."""
    done = subprocess.run([sys.executable, "-c", LOADED, *command], capture_output=True, text=True)
    return int(done.stdout.split()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description="Start of the command.")
    parser.add_argument("--rounds", type=int, default=9, help="starts of each command")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for command in commands(folder):
            clock, used = map(statistics.median, zip(*(seconds(command) for _ in range(options.rounds)), strict=True))
            said = "assay " + " ".join(command).replace(folder, "DIR")
            print(f"{clock:5.2f} s, {used:5.2f} s of processor, {torch_modules(command):4} modules of torch: {said}")


if __name__ == "__main__":
    main()
