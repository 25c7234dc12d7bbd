"""From a delegated edge program to a TOSA graph."""
