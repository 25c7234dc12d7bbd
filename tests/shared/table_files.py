"""Small tables, as files."""

from __future__ import annotations

from pathlib import Path

from npu_assay.conformance.table import Table, load_table

NEUTRON = load_table("neutron@1.3")

SMALL = """\
schema = 1
name = "toy"
version = "1.0"
backend_id = "ToyBackend"
source = "a test"
rescale = "tflite_double_round"

[parameters]
macs = 8

[common]
constraints = ["quantized @document"]

[constraints]
quantized = "must be quantized"
rank = "the rank must be {value}"

[operators]
"aten.abs.default" = { document = "", constraints = [] }
"aten.relu.default" = { document = "rank 4", constraints = ["rank = 4 @document"] }
"""
NEG = '"aten.neg.default" = { document = "8x8", precisions = ["int8"], constraints = ["rank = 4 @1.5.1"] }\n'
SQRT = '"sqrt.default" = { document = "8x8", operators = ["aten.abs.default"] }\n'
DOCUMENTED = f"[refused]\n{NEG}[rewritten]\n{SQRT}"


def _load(folder: Path, text: str) -> Table:
    path = folder / "toy@1.0.toml"
    path.write_text(text)
    return load_table(str(path))
