"""A board behind a command, which adds 1 to what it is given, and goes wrong with the model b"bad" as it is told.

    python misbehaving_board.py HOW FOLDER

A file `calls` beside the folders of calls counts them.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

folder = Path(sys.argv[2])
counted = folder.parent / "calls"


def calls() -> int:
    """How many calls there were, with this one."""
    with counted.open("a") as file:
        file.write("x")
    return counted.stat().st_size


def answer(name: str, number: int, plus: int = 1) -> None:
    """The right answer to a job."""
    out = folder / "out" / name
    for place in range(number):
        np.save(out / f"output_{place}.npy", np.load(folder / "in" / name / f"input_{place}.npy") + np.int8(plus))
    (out / "done").write_text(name)


def die(code: int) -> Callable[[Path], None]:
    return lambda out: os._exit(code) if code else os.kill(os.getpid(), signal.SIGSEGV)


def made(make: Callable[[Path], object], done: bool = True) -> Callable[[Path], None]:
    """Something else than a file in place of the output."""

    def act(out: Path) -> None:
        make(out / "output_0.npy")
        if done:
            (out / "done").write_text(out.name)

    return act


def written(file: str, data: bytes, done: bool = True) -> Callable[[Path], None]:
    def act(out: Path) -> None:
        (out / file).write_bytes(data)
        if done:
            (out / "done").write_text(out.name)

    return act


def array(kind: str) -> bytes:
    shape, dtype = {"huge": ("(99999999999,)", "|i1"), "complex": ("(1,)", "<c16"), "objects": ("(1,)", "|O")}[kind]
    text = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode() + bytes(16)


def many(out: Path) -> None:
    for number in range(300):
        (out / f"output_{number}.npy").touch()


def fill(out: Path) -> None:
    for number in range(10**6):
        (out / f"more_{number}").write_bytes(bytes(2**20))


BAD: dict[str, Callable[[Path], None]] = {
    "dies": die(3),
    "crashes": die(0),
    "hangs": lambda out: time.sleep(60),
    "half": made(lambda path: path.write_bytes(array("complex")[:40]), done=False),
    "truncated": written("output_0.npy", array("huge")),
    "empty": written("output_0.npy", b""),
    "objects": written("output_0.npy", array("objects")),
    "complex": written("output_0.npy", array("complex")),
    "text": written("output_0.npy", b"all is well\n"),
    "stale": made(lambda path: (path.parent / "done").write_text("0123456789abcdef"), done=False),
    "second alone": written("output_1.npy", array("complex")),
    "another file": written("result.bin", b"1"),
    "a pipe": made(os.mkfifo),
    "a link": made(lambda path: path.symlink_to("/etc/hostname")),
    "a folder": made(Path.mkdir),
    "a folder for done": lambda out: (out / "done").mkdir(),
    "refuses": written("error.txt", b"no memory for this model\n"),
    "refuses wordless": written("error.txt", b""),
    "refuses at length": written("error.txt", b"x" * 10**6),
    "many": many,
    "fills the disk": fill,
}


def whole(how: str, jobs: list[tuple[str, int]]) -> None:
    """What is wrong with the call, and not with one job."""
    number = calls()
    if how == "line drops once" and number == 1:
        sys.exit("connection closed")
    if how == "is gone":
        sys.exit("no route to board")
    if how == "silent once" and number == 1:
        sys.exit(0)
    if how == "answers another":
        (folder / "out" / "feedfeedfeedfeed").mkdir()
        (folder / "out" / "feedfeedfeedfeed" / "done").write_text("feedfeedfeedfeed")
        sys.exit(0)
    if how == "removes its questions":
        for name, count in jobs:
            answer(name, count)
        subprocess.run(["rm", "-r", str(folder / "in"), str(folder / "manifest.txt")], check=True)
        sys.exit(0)
    if how == "prints without end":
        print("noise " * 10**6)
    if how == "leaves a process":
        subprocess.Popen(["sleep", "60"])


def main(how: str) -> None:
    """Answer the jobs of a call, the last one first."""
    _, *lines = (folder / "manifest.txt").read_text().splitlines()
    jobs = [(name, int(count)) for name, count in map(str.split, lines)]
    whole(how, jobs)
    order = jobs if how in ("dies", "crashes", "hangs") else jobs[::-1]
    for name, count in order:
        if how in BAD and (folder / "in" / name / "model.bin").read_bytes() == b"bad":
            BAD[how](folder / "out" / name)
        else:
            answer(name, count)
        if how == "answers twice":
            answer(name, count)


main(sys.argv[1])
