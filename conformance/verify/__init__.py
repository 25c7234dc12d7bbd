"""Checking a run that somebody recorded: again from its files, again by running it, and who signed it."""
