"""Comparing runs with each other, and code with tables and documents."""
