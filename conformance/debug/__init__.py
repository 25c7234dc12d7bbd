"""A debugger's path: one case in this process, with tracebacks, and what was expected beside what came."""
