"""Random programs, composed of the cases of a table: they test what no single case tests.

`programs` makes the program of a number, `observe` runs and judges one, `shrink` reduces a failing one, `stream` runs
any number of them without holding them in memory.
"""
