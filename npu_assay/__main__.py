"""`python -m npu_assay` is the command `assay`."""

from npu_assay.conformance.cli import main

if __name__ == "__main__":
    main(prog_name="assay")
