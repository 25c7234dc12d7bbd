"""The run as one self-contained HTML page: what it shows, its script and its style."""
