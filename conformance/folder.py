"""The names of what a run leaves in its folder."""

from __future__ import annotations

JOURNAL = "results.partial.jsonl"
FUZZ = "fuzz.jsonl"
FUZZ_JOURNAL = "fuzz.partial.jsonl"
RESULTS = "results.jsonl"
CERTIFICATE = "certificate.json"
TABLE = "table.toml"
REPORTS = ("drift.json", "junit.xml", "report.md", "report.html")
FILES = (CERTIFICATE, RESULTS, FUZZ, TABLE, *REPORTS, JOURNAL)  # in the order in which a new run removes them
