"""Constraints that a table defines itself: predicates over the features of one application of an operator."""
