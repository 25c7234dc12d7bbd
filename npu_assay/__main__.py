"""`python -m npu_assay` is the command `assay`."""

from npu_assay.conformance.cli import main

main(prog_name="assay")
