"""From a delegated edge program to an XNNPACK subgraph: one function per operator."""
