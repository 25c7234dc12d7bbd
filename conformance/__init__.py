"""What a backend's support table promises, and how a backend is checked against it."""
