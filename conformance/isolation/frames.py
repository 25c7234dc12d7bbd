"""Messages of bytes over a socket: eight bytes with the length, then the message."""

from __future__ import annotations

import socket
from contextlib import suppress

GOOD, LAST = "+", "-"
"""The first byte of an answer or result: the runner goes on, or its state is spoiled and it must be replaced."""
DRAW = "?"
"""The first byte of a runner's message that asks for the inputs of the program that it has compiled."""
STAGE = 64  # bytes of the file that hold the name of the stage
SIZE = 8
LONGEST = 2**29  # bytes of a message before it is taken for noise: a program's outputs are far smaller


class FrameError(ValueError):
    """The bytes that arrived are not a message."""


def send(end: socket.socket, message: bytes) -> None:
    """Send a message; if the other end is closed, it is dropped."""
    with suppress(OSError):
        end.sendall(len(message).to_bytes(SIZE, "big") + message)  # in one piece: who waits for it wakes once


def receive(end: socket.socket) -> bytes | None:
    """Wait for a message; None when the other end is closed. Raises FrameError for one that is too long."""
    size = exactly(end, SIZE)
    if size is None:
        return None
    length = int.from_bytes(size, "big")
    if length > LONGEST:
        raise FrameError(f"found a message of {length} bytes, expected at most {LONGEST}")
    return exactly(end, length)


def exactly(end: socket.socket, count: int) -> bytes | None:
    """Wait for `count` bytes; None if the other end closes before."""
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
