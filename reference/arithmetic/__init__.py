"""The specification of each rescale scheme's arithmetic, operator by operator: plain integers, one formula each.

It is what judges a device, so it is written to be read beside the vendor's formula and not to be fast. It shares no
code with the kernels that devices run: see the import contracts in pyproject.toml.
"""
