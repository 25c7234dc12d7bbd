"""How long `assay --help` and `assay list` take, from the shell's view, and whether they load torch.

Run from the repository:

    python benchmarks/start.py

Printed: the median of the seconds on the clock, and the modules of torch that were loaded.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time

COMMANDS = ("--help", "list")
LOADED = """
import sys
sys.argv = ["assay", sys.argv[1]]
from npu_assay.conformance.cli import main
main(standalone_mode=False)
print(sum(name.split(".")[0] == "torch" for name in sys.modules))
"""


def seconds(command: str) -> float:
    """One start."""
    begin = time.perf_counter()
    subprocess.run([sys.executable, "-m", "npu_assay", command], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begin


def torch_modules(command: str) -> int:
    """How many modules of torch the command loads."""
    done = subprocess.run([sys.executable, "-c", LOADED, command], check=True, capture_output=True, text=True)
    return int(done.stdout.split()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description="Start of the command.")
    parser.add_argument("--rounds", type=int, default=9, help="starts of each command")
    options = parser.parse_args()
    for command in COMMANDS:
        median = statistics.median(seconds(command) for _ in range(options.rounds))
        print(f"assay {command:8} {median:5.2f} s, {torch_modules(command)} modules of torch")


if __name__ == "__main__":
    main()
