"""From a delegated edge program to a TFLite model: one function per operator."""
