"""The processor time of `assay certify`, with all processes that it starts, of two states of the project side by side.

Run from the repository, with the folder of a checkout of the other state:

    python benchmarks/certify.py ../before
    python benchmarks/certify.py ../before --backend neutron

Printed: seconds of the processor, for each backend and in sum, and the ratio of this state to the other. The second
golden is asked about every case.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

BACKENDS = ("neutron", "xnnpack", "ethos-u55", "ethos-u85")
HERE = Path(__file__).parent.parent
_CHILD_SUBREAPER = 36  # prctl(2): orphans of the run become children of this process, so that their time counts


def seconds(checkout: Path, backend: str, options: Sequence[str] = ()) -> float:
    """Of one run on two workers. options: further ones of `certify`. Raises CalledProcessError where it fails."""
    before = _used()
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "npu_assay", "certify", backend, "-n", "2", "--out", "run", *options]
        environment = {**os.environ, "PYTHONPATH": str(checkout.resolve())}
        subprocess.run(command, cwd=folder, env=environment, check=True, stdout=subprocess.DEVNULL)
        with suppress(ChildProcessError):
            while True:
                os.wait()
    return _used() - before


def _used() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("other", type=Path, help="the folder of another checkout")
    parser.add_argument("--backend", choices=BACKENDS, action="append", help="only these; may be repeated")
    parser.add_argument("-k", dest="expression", help="only these cases")
    arguments = parser.parse_args()
    ctypes.CDLL(None).prctl(_CHILD_SUBREAPER, 1, 0, 0, 0)
    options = ["-k", arguments.expression] if arguments.expression else []
    sums = [0.0, 0.0]
    for backend in arguments.backend or BACKENDS:
        found = [seconds(checkout, backend, options) for checkout in (arguments.other, HERE)]
        sums = [total + more for total, more in zip(sums, found, strict=True)]
        print(f"{backend}: {found[0]:.1f} s before, {found[1]:.1f} s now, ratio {found[1] / found[0]:.2f}", flush=True)
    print(f"together: {sums[0]:.1f} s before, {sums[1]:.1f} s now, ratio {sums[1] / sums[0]:.2f}")


if __name__ == "__main__":
    main()
