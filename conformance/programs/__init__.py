"""A case's program: plain data, and the edge program that is built from it."""
