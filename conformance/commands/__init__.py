"""Commands of `assay`, one module each; `npu_assay.conformance.cli` registers them."""
