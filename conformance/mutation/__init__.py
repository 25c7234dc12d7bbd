"""The suite proved by faults: broken copies of a backend, and which checks notice each of them."""
