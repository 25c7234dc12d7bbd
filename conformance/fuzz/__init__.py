"""Random programs, drawn from a table's rows: what no single case asks.

`draw` makes the program of a number, `observe` runs and judges one, `shrink` makes a failing one small, `stream` runs
many, in any number, without keeping them.
"""
