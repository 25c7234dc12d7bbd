"""What a process does besides computing: files that it writes, processes that it starts, pickles that it reads."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
ACTS = frozenset(
    (
        *("pickle.find_class", "subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork", "os.forkpty"),
        *("os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.truncate", "os.chmod"),
        *("socket.connect", "socket.bind", "ctypes.dlopen", "shutil.rmtree", "shutil.copyfile", "tempfile.mkstemp"),
    )
)
"""Events of Python's audit hooks."""


def watched(*, evaluating: bool) -> Callable[[], list[str]]:
    """From now on, of this process: what it did since it was asked last. evaluating: code made of texts, too."""
    found = list[str]()
    sys.dont_write_bytecode = True

    def look(event: str, given: tuple[object, ...]) -> None:
        if event in ACTS or (event == "open" and _writes(given)) or (evaluating and event == "exec" and _made(given)):
            found.append(f"{event} {str(given)[:200]}")

    def asked() -> list[str]:
        now = list(found)
        found.clear()
        return now

    sys.addaudithook(look)
    return asked


def _writes(given: tuple[object, ...]) -> bool:
    return isinstance(given[2], int) and bool(given[2] & WRITING) and given[0] != os.devnull


def _made(given: tuple[object, ...]) -> bool:
    """True for code of no file."""
    name = str(getattr(given[0], "co_filename", ""))
    return name.startswith("<") and not name.startswith("<frozen")
