"""ExecuTorch program files from anybody: what they hold, and running them."""
