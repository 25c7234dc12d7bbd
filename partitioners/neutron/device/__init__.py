"""The simulated device's operators: rules that a model must keep, and the integer kernel for each."""
