"""Cases as files that any toolchain can run, and judgement of what it computed."""
