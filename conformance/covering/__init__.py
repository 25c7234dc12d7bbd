"""How well a table's cases show its limits: every part of every constraint alone, and limits together, two by two."""
