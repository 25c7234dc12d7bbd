"""Exceptions as text that is the same in every process: one line, and the frames of a traceback."""

from __future__ import annotations

import re
import sys
import sysconfig
import traceback
from pathlib import Path

FRAMES, WIDTH = 12, 200
"""The parts of a traceback: the frames that are kept, the innermost ones, and the length of each in characters."""
_ADDRESS = re.compile(r"\b0x[0-9a-fA-F]+")


def describe(error: BaseException) -> str:
    """An exception in one line: type, message without addresses, and the function that raised it."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f" (in {frames[-1].name}, {Path(frames[-1].filename).name})" if frames else ""
    said = without_addresses(" ".join(message(error).split()))
    return _encodable(f"{type_name(error)}:{said and f' {said}'}{place}")


def last_line(text: str) -> str:
    """The last line with something in it, which is where a program says why it ended; "" where there is none."""
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")


def type_name(found: object) -> str:
    """Return the name of a value's type as Python keeps it: its metaclass may give out another one, or none."""
    name: str = type.__dict__["__name__"].__get__(type(found))
    return name


def message(error: BaseException) -> str:
    """Return what an exception says of itself, in UTF-8; nothing where its own code fails."""
    try:
        return _encodable(str(error))
    except Exception:  # noqa: BLE001  (a class may do anything when it is asked)
        return ""


def _encodable(text: str) -> str:
    """Lone surrogates, which UTF-8 does not have, as escapes."""
    return str.encode(text, errors="backslashreplace").decode()


def frames(error: BaseException) -> tuple[str, ...]:
    """The traceback, innermost last, each frame as "file:line in function: code", files as modules are imported.

    Frames of this suite, of the export API, torch and Python's own library are left out but for the innermost one.
    """
    found = traceback.extract_tb(error.__traceback__)
    kept = [frame for frame in found[:-1] if not _is_known(Path(frame.filename))] + list(found[-1:])
    return tuple(_frame(frame) for frame in kept[-FRAMES:])


def own_place(error: BaseException) -> str:
    """The last frame in a file of the user's own, " (model.py:12)"; of an installed package if there is none, or ""."""
    found = [frame for frame in traceback.extract_tb(error.__traceback__) if not _is_known(Path(frame.filename))]
    own = [frame for frame in found if not _INSTALLED & {*Path(frame.filename).parts}]
    return next((f" ({_relative(Path(last.filename))}:{last.lineno})" for last in (own or found)[-1:]), "")


def _frame(frame: traceback.FrameSummary) -> str:
    said = " ".join((frame.line or "").split())
    text = f"{_relative(Path(frame.filename))}:{frame.lineno} in {frame.name}{said and f': {said}'}"
    return _encodable(without_addresses(text)[:WIDTH])


def _is_known(path: Path) -> bool:
    parts = path.parts
    if _INSTALLED & {*parts}:
        return "torch" in parts
    known = (_PACKAGE / "conformance", _PACKAGE / "partitioners" / "exir", Path(sysconfig.get_path("stdlib")))
    return not path.is_absolute() or any(path.is_relative_to(folder) for folder in known)


_INSTALLED = {"site-packages", "dist-packages"}
_PACKAGE = Path(__file__).parents[2]


def _relative(path: Path) -> str:
    """A file's path below the folder that it is imported from: not that of this machine."""
    folders = [*map(Path, filter(None, sys.path)), _PACKAGE.parent]
    roots = [folder for folder in folders if path.is_relative_to(folder)]
    return path.relative_to(max(roots, key=lambda root: len(root.parts))).as_posix() if roots else path.name


def without_addresses(text: str) -> str:
    """A text that is the same in every process."""
    return _ADDRESS.sub("0x...", text)
