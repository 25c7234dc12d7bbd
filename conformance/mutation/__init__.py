"""Tests the suite with faults: broken copies of a backend, and which checks notice each of them."""
