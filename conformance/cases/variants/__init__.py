"""What a row is asked besides the cases of its family: sizes, values and neighbors of its plain program varied."""
