"""The simulated Ethos-U prepares the operators of a TOSA graph with the arithmetic of `ethosu.kernels`."""
