"""The simulated XNNPACK device: one module per family of operators, and the table of them all."""
