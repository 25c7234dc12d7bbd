"""Running cases: one case, a whole session, and what goes between its processes."""
