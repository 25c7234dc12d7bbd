"""Exports cases as files that any toolchain can run, and judges the outputs that it computed."""
