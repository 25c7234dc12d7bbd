"""Checks of a recorded run: from its files, by running its cases again, and by its signature."""
