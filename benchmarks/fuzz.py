"""Random programs: does a program take as long, and the run as little memory, when there are many more of them?

Run from the repository:

    python benchmarks/fuzz.py --sizes 2000 20000

Each size is a run of `assay certify --fuzz` in a process of its own, with one case of the table beside it. Printed are
the time for a program (start-up, which loads torch and makes the cases, is measured by a run of one program and
taken off), the largest memory of the process of the run and of any of its workers, and how many programs fail; then
the ratios of the last size to the first.
Processor time is what ratios are of, as other work on the machine does not stretch it. With `--keep FOLDER` the results
of each size stay there.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent


@dataclass
class Measured:
    """seconds, processor: by the clock on the wall, and of all processors.

    own, workers: the largest memory of one process, in KiB. fail: failing programs.
    """

    seconds: float = 0.0
    processor: float = 0.0
    own: int = 0
    workers: int = 0
    fail: int = 0


def children(process: int) -> list[int]:
    """The processes below one."""
    try:
        text = Path(f"/proc/{process}/task/{process}/children").read_text()
    except OSError:
        return []
    found = [int(word) for word in text.split()]
    return found + [below for child in found for below in children(child)]


def memory(process: int) -> int:
    """The most that a process has had so far."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("VmHWM")), 0)


def spent(process: int) -> float:
    """The processor time that a process has had so far, in seconds."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def watch(process: int, measured: Measured, ended: threading.Event) -> None:
    """Look at all processes until the run ends."""
    times: dict[int, float] = {}
    while not ended.wait(0.2):
        below = children(process)
        measured.own = max(measured.own, memory(process))
        measured.workers = max([measured.workers, *map(memory, below)])
        times.update({one: time for one in (process, *below) if (time := spent(one))})
    measured.processor = sum(times.values())


def run(backend: str, programs: int, workers: int, seed: int, keep: Path | None = None) -> Measured:
    """One run. Its results stay in the folder `keep`, where one is given."""
    measured, ended = Measured(), threading.Event()
    with tempfile.TemporaryDirectory() as folder:
        out = keep / str(programs) if keep else Path(folder, "out")
        words = ["certify", backend, "-k", "aten.abs and baseline", "-n", str(workers), "--out", str(out)]
        words += ["--fuzz", str(programs), "--seed", str(seed)]
        path = os.pathsep.join([str(ROOT), str(ROOT / "tests" / "shared")])
        before = time.perf_counter()
        process = subprocess.Popen(
            [sys.executable, "-m", "npu_assay.conformance.cli", *words],
            env={**os.environ, "PYTHONPATH": path},
            stdout=subprocess.DEVNULL,
        )
        thread = threading.Thread(target=watch, args=(process.pid, measured, ended))
        thread.start()
        code = process.wait()
        ended.set()
        thread.join()
        if code not in (0, 1) or not (out / "certificate.json").exists():
            raise SystemExit(f"the run ended with exit code {code}")
        measured.fail = json.loads((out / "certificate.json").read_text())["fuzz"]["fail"]
    measured.seconds = time.perf_counter() - before
    return measured


def main() -> None:
    parser = argparse.ArgumentParser(description="Time and memory of random programs.")
    parser.add_argument("--backend", default="npu_assay.partitioners.neutron:backend", help="name or module:attribute")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--sizes", type=int, nargs="+", default=[2_000, 20_000])
    parser.add_argument("--keep", type=Path, help="a folder for the results")
    options = parser.parse_args()
    start = run(options.backend, 1, options.workers, options.seed)
    found = []
    for size in options.sizes:
        measured = run(options.backend, size, options.workers, options.seed, options.keep)
        each = (measured.processor - start.processor) / (size - 1)
        wall = (measured.seconds - start.seconds) / (size - 1)
        found.append((each, measured))
        print(
            f"{size:6} programs: {1e3 * wall:.2f} ms each, {1e3 * each:.2f} ms of processor time, "
            f"most {measured.own / 1024:.0f} MiB in the run, "
            f"{measured.workers / 1024:.0f} MiB in a worker, {measured.fail} failing"
        )
    (first, few), (last, many) = found[0], found[-1]
    slower = last / first if first > 0 else math.nan  # of a few programs the clock may have counted nothing
    print(
        f"ratios: processor time {slower:.2f}, memory of the run {many.own / few.own:.2f}, "
        f"of a worker {many.workers / few.workers:.2f}"
    )


if __name__ == "__main__":
    main()
