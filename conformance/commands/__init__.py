"""Commands of `assay`, one module each; `conformance.cli` registers them."""
