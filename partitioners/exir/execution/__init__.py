"""From the edge dialect to a program file: out variants, memory planning, emission."""
