"""npu-assay: measures whether an NPU backend does what its operator support table says.

`npu_assay.conformance` holds tables, cases, gates, certificates and the command, `npu_assay.reference` what the numbers
must be, `npu_assay.partitioners` the export API and four backends.
"""

__version__ = "0.1.0"
