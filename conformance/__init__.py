"""What a backend's support table promises, and how a backend is checked against it."""

# Found as a neighbor of the current directory, it would be a second copy of every class in it.
if __name__ != "npu_assay.conformance":
    raise ImportError(f"module {__name__}: expected npu_assay.conformance, of which this is the folder")
