"""Comparing runs with each other, and backends with tables and documents."""
