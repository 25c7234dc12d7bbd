"""Messages between the processes of a run: lines of JSON over a socket, never objects."""

from __future__ import annotations

import json
import socket
from collections.abc import Sequence
from typing import Any

BLOCK = 2**16
LONGEST = 2**26  # bytes without an end of line, before what comes is taken for noise


class WireError(ValueError):
    """The bytes that arrived are not a message."""


class Wire:
    """One end of a connection. Reading never waits; whoever reads waits for the socket first."""

    def __init__(self, end: socket.socket) -> None:
        self.socket = end
        self._rest = b""
        self.closed = False

    def send(self, message: Any, descriptors: Sequence[int] = ()) -> None:
        """Send one message; if the other end is closed, it is dropped."""
        self._send(json.dumps(message).encode() + b"\n", descriptors)

    def send_text(self, lines: str) -> None:
        """Send whole lines of text."""
        self._send(lines.encode())

    def _send(self, data: bytes, descriptors: Sequence[int] = ()) -> None:
        try:
            if descriptors:
                data = data[socket.send_fds(self.socket, [data], list(descriptors)) :]
            self.socket.sendall(data)
        except OSError:
            self.closed = True

    def lines(self) -> list[str]:
        """The complete lines that have arrived. Raises WireError for a line that is too long or not UTF-8."""
        pieces = [self._rest]
        while not self.closed:
            try:
                data = self.socket.recv(BLOCK, socket.MSG_DONTWAIT)
            except BlockingIOError:
                break
            except OSError:
                data = b""
            self.closed = not data
            pieces.append(data)
        *lines, self._rest = b"".join(pieces).split(b"\n")
        if len(self._rest) > LONGEST:
            raise WireError("a line without an end")
        try:
            return [line.decode() for line in lines]
        except UnicodeDecodeError as error:
            raise WireError("not UTF-8") from error

    def messages(self) -> list[Any]:
        """The messages that have arrived. Raises WireError."""
        try:
            return [json.loads(line) for line in self.lines()]
        except ValueError as error:
            raise WireError(str(error)) from error

    def close(self) -> None:
        """Close this end."""
        self.closed = True
        self.socket.close()
