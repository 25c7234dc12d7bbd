"""The cases of a table that take most processor time: none of a shipped table may need more than 5 seconds.

Run from the repository:

    python benchmarks/slowest_cases.py --backend ethos-u55

Cases run in this process, one after another, each judged as `assay certify` does, and no more than once.
"""

from __future__ import annotations

import argparse
import time

import torch

from npu_assay.conformance.backend.loading import load_backend
from npu_assay.conformance.run.one_case import run_case
from npu_assay.conformance.run.selection import all_cases, select
from npu_assay.conformance.table import load_table


def main() -> None:
    parser = argparse.ArgumentParser(description="The cases of a table that take most processor time.")
    parser.add_argument("--backend", default="neutron", help="name or module:attribute")
    parser.add_argument("-k", dest="expression", default="", help="some cases, as in assay certify")
    parser.add_argument("--most", type=int, default=10, help="how many to list")
    options = parser.parse_args()
    torch.set_num_threads(1)
    backend = load_backend(options.backend)
    table = load_table(backend.table)
    times = list[tuple[float, str]]()
    for case in select(all_cases(table), options.expression) if options.expression else all_cases(table):
        start = time.process_time()
        run_case(case, backend, table)
        times.append((time.process_time() - start, case.id))
    slowest = sorted(times, reverse=True)[: options.most]
    print(f"{len(times)} cases, {sum(seconds for seconds, _ in times):.1f} s of processor time")
    for seconds, name in slowest:
        print(f"{seconds:7.2f} s  {name}")


if __name__ == "__main__":
    main()
