"""The goldens of whole graphs, and the guards and gates that outputs pass."""
