"""A board behind a command: ExecuTorch's runtime on `.pte` files, in a process that has nothing of this project.

python pte_board.py FOLDER
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import torch
from executorch.runtime import Runtime


def main(folder: Path) -> None:
    """Answer the jobs of a call."""
    torch.set_num_threads(1)
    runtime = Runtime.get()
    for line in (folder / "manifest.txt").read_text().splitlines()[1:]:
        name, number = line.split()
        asked, out = folder / "in" / name, folder / "out" / name
        inputs = [torch.from_numpy(np.load(asked / f"input_{place}.npy")) for place in range(int(number))]
        try:
            found = runtime.load_program(asked / "model.bin").load_method("forward").execute(inputs)
        except Exception as error:  # noqa: BLE001  (it may refuse with anything)
            (out / "error.txt").write_text(f"{type(error).__name__}: {error}")
            continue
        for place, each in enumerate(found):
            np.save(out / f"output_{place}.npy", each.contiguous().numpy())
        (out / "done").write_text(name)


main(Path(sys.argv[1]))
