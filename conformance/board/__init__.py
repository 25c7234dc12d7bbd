"""A static site over many runs: backends, operators and releases, their history, and what changed between neighbors."""
