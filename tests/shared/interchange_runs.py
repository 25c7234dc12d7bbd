"""Running exported folders elsewhere: what a user's own toolchain does between `assay export` and `assay judge`."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import numpy_helper

Array = npt.NDArray[Any]
Run = Callable[[Path, Sequence[Array]], Sequence[Array]]


def listed(folder: Path) -> list[dict[str, Any]]:
    """The cases of an exported folder."""
    cases: list[dict[str, Any]] = json.loads((folder / "manifest.json").read_text())["cases"]
    return cases


def read(path: Path) -> Array:
    """A tensor file."""
    if path.suffix == ".npy":
        return np.asarray(np.load(path))
    return np.asarray(numpy_helper.to_array(onnx.TensorProto.FromString(path.read_bytes())))


def write(path: Path, array: Array) -> None:
    """A tensor file, in a new folder if need be."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".npy":
        np.save(path, array)
    else:
        path.write_bytes(numpy_helper.from_array(array).SerializeToString())


def run_all(folder: Path, outputs: Path, run: Run) -> None:
    """Every case of a folder through a toolchain, its results written for `assay judge`."""
    for case in listed(folder):
        place = folder / case["folder"]
        found = run(place / case["model"], [read(place / name) for name in case["inputs"]])
        for name, array in zip(case["outputs"], found, strict=True):
            write(outputs / case["folder"] / Path(name).name, np.asarray(array))
