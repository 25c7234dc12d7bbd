"""The names of what a run leaves in its folder."""

from __future__ import annotations

JOURNAL = "results.partial.jsonl"
FUZZ = "fuzz.jsonl"
FUZZ_JOURNAL = "fuzz.partial.jsonl"
RESULTS = "results.jsonl"
CERTIFICATE = "certificate.json"
ATTESTATION = "attestation.json"  # of `assay attest`, once the run is over
TABLE = "table.toml"
REPORTS = ("drift.json", "junit.xml", "report.md", "report.html")
# In the order in which a new run removes them.
FILES = (CERTIFICATE, ATTESTATION, RESULTS, FUZZ, TABLE, *REPORTS, JOURNAL)
