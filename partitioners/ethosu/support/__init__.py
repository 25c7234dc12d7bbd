"""What Ethos-U can run, as one predicate per limit."""
