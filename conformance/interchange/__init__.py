"""Cases as files that any toolchain can run, and judgment of what it computed."""
