"""A board behind a command: the simulated device of a backend, in a process of its own for each call.

python simulated_board.py BACKEND FOLDER
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import torch

from npu_assay.conformance.backend.loading import load_backend


def main(spec: str, folder: Path) -> None:
    """Answer the jobs of a call."""
    torch.set_num_threads(1)
    runtime = load_backend(spec).runtime
    for line in (folder / "manifest.txt").read_text().splitlines()[1:]:
        name, number = line.split()
        asked, out = folder / "in" / name, folder / "out" / name
        try:
            inputs = [torch.from_numpy(np.load(asked / f"input_{place}.npy")) for place in range(int(number))]
            found = runtime.execute(runtime.load((asked / "model.bin").read_bytes(), ()), inputs)
        except Exception as error:  # noqa: BLE001  (a device may refuse with anything)
            (out / "error.txt").write_text(f"{type(error).__name__}: {error}")
            continue
        for place, each in enumerate(found):
            np.save(out / f"output_{place}.npy", each.numpy())
        (out / "done").write_text(name)


main(sys.argv[1], Path(sys.argv[2]))
