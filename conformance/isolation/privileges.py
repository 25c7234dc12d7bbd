"""Protects the memory of the judging processes from others of the same user, and gives up rights that no backend needs.

On Linux a process may read and write the memory of another one of its user (`/proc/<pid>/mem`), unless that one is not
dumpable. Root may do so even then, unless it has fewer capabilities than the other process.
"""

from __future__ import annotations

import ctypes
import sys

LINUX = sys.platform == "linux"
_DUMPABLE, _NO_NEW_PRIVILEGES = 4, 38  # prctl(2): PR_SET_DUMPABLE, PR_SET_NO_NEW_PRIVS
_OF_FILES = 0b1111  # chown, dac_override, dac_read_search, fowner
_CAPABILITIES = 0x20080522  # capset(2): _LINUX_CAPABILITY_VERSION_3


def hide_memory() -> None:
    """Forbid other processes of this user to read or write the memory of this process and its forks."""
    if LINUX:
        ctypes.CDLL(None).prctl(_DUMPABLE, 0, 0, 0, 0)


def give_up_capabilities() -> None:
    """Drop root's capabilities, except those for access to files, for this process and all that it starts."""
    if LINUX:
        libc = ctypes.CDLL(None)
        libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
        header = (ctypes.c_uint32 * 2)(_CAPABILITIES, 0)
        found = (ctypes.c_uint32 * 6)()  # effective, permitted and inheritable ones; then those from number 32 on
        libc.capget(header, found)
        libc.capset(header, (ctypes.c_uint32 * 6)(*(each & _OF_FILES for each in found[:3])))
