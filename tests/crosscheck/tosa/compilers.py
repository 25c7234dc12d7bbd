"""The compiler for the real devices: Vela, in this process."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from ethosu.vela import vela

from tests.crosscheck.tosa.streams import silence

CONFIGURATIONS = {
    "u55": ("ethos-u55-128", "Ethos_U55_High_End_Embedded", "Shared_Sram"),
    "u85": ("ethos-u85-256", "Ethos_U85_SYS_DRAM_Mid", "Sram_Only"),
}


def command_bytes(blob: bytes, device: str, folder: Path) -> int:
    """The size of the command stream that Vela makes of a blob; its exception when it makes none."""
    accelerator, system, memory = CONFIGURATIONS[device]
    source, target = folder / "graph.tosa", folder / "compiled"
    source.write_bytes(blob)
    options = [f"--accelerator-config={accelerator}", f"--system-config={system}", f"--memory-mode={memory}"]
    with silence():
        vela.main([*options, "--config=Arm/vela.ini", "--output-format=raw", f"--output-dir={target}", str(source)])
    with np.load(target / "graph_vela.npz") as parts:
        return int(parts["cmd_data"].nbytes)
