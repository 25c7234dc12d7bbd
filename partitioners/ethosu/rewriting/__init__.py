"""Rewrites float models into operators that Ethos-U has, before they are quantized."""
