"""Messages of bytes over a socket: eight bytes of length, then so many."""

from __future__ import annotations

import socket
from contextlib import suppress

GOOD, LAST = "+", "-"
"""Begin an answer, or a result: the runner goes on, or is in a state that no other program should start from."""
STAGE = 64  # bytes of the file that hold the name of the stage
SIZE = 8
LONGEST = 2**29  # bytes of a message before it is taken for noise: a program's outputs are far smaller


class FrameError(ValueError):
    """What came is no message."""


def send(end: socket.socket, message: bytes) -> None:
    """Send one; nothing happens when nobody is left to read it."""
    with suppress(OSError):
        end.sendall(len(message).to_bytes(SIZE, "big") + message)  # in one piece: who waits for it wakes once


def receive(end: socket.socket) -> bytes | None:
    """Wait for one; None when there will be no more. Raises FrameError for one that is too long."""
    size = exactly(end, SIZE)
    if size is None:
        return None
    length = int.from_bytes(size, "big")
    if length > LONGEST:
        raise FrameError(f"a message of {length} bytes")
    return exactly(end, length)


def exactly(end: socket.socket, count: int) -> bytes | None:
    """Wait for so many bytes; None when they do not come."""
    pieces = bytearray()
    while len(pieces) < count:
        try:
            data = end.recv(min(count - len(pieces), 2**20))
        except OSError:
            return None
        if not data:
            return None
        pieces += data
    return bytes(pieces)
