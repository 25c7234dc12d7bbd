"""What the simulated devices of several vendors share: kernels on int8 codes, and the rescale schemes by name."""
