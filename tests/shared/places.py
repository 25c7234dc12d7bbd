"""Where the checkout is, and the folder of what tests share, which other processes need on their path."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).parents[2]
SHARED = Path(__file__).parent
PATH = f"{ROOT}{os.pathsep}{SHARED}"
"""What a process needs as PYTHONPATH that imports modules of tests."""
