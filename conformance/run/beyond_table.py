"""What a backend takes beyond its table: the operators and precisions that it does not list, as a table of offers.

A table of offers promises nothing of its rows. Their plain programs run like all others, tags are reported and cannot
be wrong, and what the backend takes must be computed rightly: no table excuses wrong numbers.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from npu_assay.conformance.cases import every_operator, has_cases
from npu_assay.conformance.table import Table
from npu_assay.reference.operators import VIEWS

SUFFIX = "_offers"
OFFERED = ("", "int8", "int16", "integers", "fp32", "fp16")
"""Precisions that are offered; the others are about the weights of products, or quantize as one library does."""


def offers_text(table: Table) -> str:
    """The table of offers beside a table, as TOML: in the precisions that some row of that has.

    Raises ValueError where nothing is left to offer.
    """
    rows = list(_rows(table))
    if not rows:
        raise ValueError(f"{table.title} lists every operator that the suite knows")
    head = {
        "schema": 2,
        "name": f"{table.name}{SUFFIX}",
        "version": table.version,
        "backend_id": table.backend_id,
        "source": f"beside {table.title}",
        "rescale": table.rescale,
        "offers": True,
        "preserve": list(table.preserve),
        "mark": table.mark,
    }
    lines = [f"{key} = {json.dumps(value)}" for key, value in head.items()]
    parameters = [f"{key} = {value}" for key, value in table.parameters]
    sections = ["[parameters]", *parameters, "[common]", "constraints = []", "[constraints]", "[operators]", *rows]
    return "\n".join([*lines, "", *sections, ""])


def _rows(table: Table) -> Iterator[str]:
    listed = {row.name: set(row.precisions) for row in table.every_row}
    listed |= {row.operator: set(row.precisions) for row in table.every_row}
    kinds = sorted({kind for row in table.rows for kind in (row.precisions or ("",)) if kind in OFFERED})
    for name in sorted(every_operator() - VIEWS.keys()):
        known = listed.get(name)
        asked = [kind for kind in kinds if known is None or (kind and kind not in known)]
        found = [kind for kind in asked if has_cases(name, kind)]
        if found == [""]:
            yield f'{json.dumps(name)} = {{ document = "", constraints = [] }}'
        elif found:
            yield f'{json.dumps(name)} = {{ document = "", precisions = {json.dumps(found)}, constraints = [] }}'


@contextmanager
def offers(table: Table) -> Iterator[str]:
    """The path of the table of offers, which is there within."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{table.name}{SUFFIX}@{table.version}.toml"
        path.write_text(offers_text(table))
        yield str(path)
