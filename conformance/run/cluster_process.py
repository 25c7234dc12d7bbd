"""The process that runs cases for a worker of a cluster: one line of JSON in, one out, until nobody asks any more.

It loads suite and backend as they are now, says what it found, and runs what it is given:
`python -m npu_assay.conformance.run.cluster_process`. It ends with whoever started it.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from typing import Any

from npu_assay.conformance.backend.environment import environment, suite_sources
from npu_assay.conformance.common.errors import UsageError
from npu_assay.conformance.isolation.forkserver import Subject
from npu_assay.conformance.isolation.limits import Limits
from npu_assay.conformance.isolation.pool import ProcessPool
from npu_assay.conformance.record.provenance import differences, statement
from npu_assay.conformance.record.results import to_line
from npu_assay.conformance.run.execution import Job, made_beforehand
from npu_assay.conformance.table import TableError, held, load_table


def main() -> None:
    """Answer until nobody asks any more."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)

    def answer(data: Mapping[str, Any]) -> None:
        out.write(json.dumps(data) + "\n")
        out.flush()

    try:
        _serve(json.loads(sys.stdin.readline()), answer)
    except (UsageError, TableError) as error:
        answer({"refused": str(error)})


def _serve(data: Mapping[str, Any], answer: Any) -> None:
    limits, seed, level = Limits(**data["limits"]), data["seed"], data["level"]
    job = Job(data["backend"], data["table"], tuple(data["tools"]), limits, seed=seed, level=level)
    subject = Subject(job.backend, job.tools, job.limits)
    suite, versions = suite_sources(), environment()
    with held(job.table):
        case = made_beforehand(job).case
        with ProcessPool(subject, job.table) as processes:
            found = statement(processes.about, load_table(job.table), suite, versions)
            if data["made"] and (wrong := differences(found, dict(data["made"]))):
                raise UsageError(f"worker environment differs from the coordinator's: {wrong}")
            answer({"lines": []})
            for line in sys.stdin:
                results = processes.run_named(json.loads(line), case, 1, level=level)
                answer({"lines": [to_line(result) for result in results]})


if __name__ == "__main__":
    main()
