"""Cases per second of the whole path: build, partition, compile, run, judge.

Run from the repository:

    python benchmarks/cases.py --workers 2

First the table's cases once with that many worker processes; then 100, 1,000 and 10,000 cases (the
table's, repeated) in one process, whose processor time per case must stay flat. Start-up (loading
torch, making the cases) is outside the timed part.
"""

from __future__ import annotations

import argparse
import itertools
import time

from npu_assay.conformance.cases import cases_for
from npu_assay.conformance.run.execution import Job, run_all, run_chunk
from npu_assay.conformance.table import load_table

SIZES = (100, 1_000, 10_000)


def rate(job: Job, ids: list[str], workers: int) -> tuple[float, int]:
    """Cases per second from the first result on, and how many failed."""
    results = run_all(job, ids, workers)
    failed = next(results).status == "fail"
    start = time.perf_counter()
    others = sum(result.status == "fail" for result in results)
    return (len(ids) - 1) / (time.perf_counter() - start), failed + others


def spread(ids: list[str], count: int) -> list[str]:
    """`count` cases taken evenly over the table, from its start again when it runs out."""
    step = max(1, len(ids) // count)
    return list(itertools.islice(itertools.cycle(ids[::step][:count] if step > 1 else ids), count))


def main() -> None:
    parser = argparse.ArgumentParser(description="Cases per second of the whole path.")
    parser.add_argument("--backend", default="npu_assay.partitioners.neutron:backend", help="name or module:attribute")
    parser.add_argument("--table", default="neutron@1.3", help="name or file of the table")
    parser.add_argument("--workers", type=int, default=2, help="processes in the first part")
    parser.add_argument("--cases", type=int, help="cases in the first part, taken evenly over the table; else all")
    parser.add_argument("--sizes", type=int, nargs="*", default=list(SIZES), help="case counts of the second part")
    options = parser.parse_args()
    job = Job(options.backend, options.table)
    ids = [case.id for case in cases_for(load_table(options.table))]
    first = spread(ids, options.cases or len(ids))
    per_second, failed = rate(job, first, options.workers)
    print(f"{len(first)} cases, {options.workers} workers: {per_second:.0f} cases per second, {failed} failed")
    run_chunk(job, tuple(spread(ids, 20)))
    for count in options.sizes:
        start = time.process_time()
        run_chunk(job, tuple(spread(ids, count)))
        print(
            f"{count:6} cases, 1 process: {1e3 * (time.process_time() - start) / count:.2f} ms of processor time a case"
        )


if __name__ == "__main__":
    main()
