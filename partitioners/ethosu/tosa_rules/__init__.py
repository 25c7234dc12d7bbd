"""What each TOSA operator asks of its operands, and the type and shape of its result: one function per family."""
