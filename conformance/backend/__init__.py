"""The backend under test: finding it, what it is made of, and what it says of itself."""
