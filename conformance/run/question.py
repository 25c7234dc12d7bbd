"""What a process that holds a backend is asked, and what it answers: plain data, bytes and tensors.

A question is a program whose inputs are open; their numbers follow when it is compiled. It holds nothing of what the
case is about: neither its id, nor what the table promises, nor a constraint, nor a golden. Its name is random. What is
asked, the judge knows; what is answered, it believes as far as it can check it.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from npu_assay.conformance.programs.graph import Graph
from npu_assay.conformance.programs.seeds import Fills, Sizes
from npu_assay.conformance.record.levels import NUMBERS
from npu_assay.conformance.record.results import Failure
from npu_assay.conformance.run.outline import Node, Tags


@dataclass(frozen=True)
class Question:
    """A program, and what to do with it.

    preserve, mark: see `programs.build`. backend_id: of the delegates. options: of the partitioner. tools: blob checks
    to ask. elsewhere: say what each delegate was given, too. anew: run further inputs on the program as it is loaded
    anew, too. beside: another program to run in turn with this one. once: tag, compile and run once, on the first
    inputs. passes: whether the backend's passes run first.
    random: a program that no one vouches for; it need not be one that torch takes. runs: whether it has an answer.
    level: how far to go (`record.levels`).
    """

    graph: Graph
    preserve: tuple[str, ...]
    mark: str
    backend_id: str
    options: tuple[tuple[str, Any], ...] = ()
    tools: tuple[str, ...] = ()
    elsewhere: bool = False
    anew: bool = False
    beside: Graph | None = None
    once: bool = False
    passes: bool = True
    random: bool = False
    runs: bool = True
    level: str = NUMBERS
    name: str = field(default_factory=lambda: secrets.token_hex(8))


@dataclass(frozen=True)
class Inputs:
    """The fills and sizes of a program's inputs for each run, and the fills of the program beside it."""

    runs: tuple[Fills, ...]
    sizes: tuple[Sizes, ...]
    beside: Fills = ()


Draw = Callable[[str], Inputs]
"""Gives the inputs for the digest of all blobs: from then on they stay as they are."""


def digest_of_blobs(blobs: Sequence[bytes]) -> str:
    """One digest of all blobs, in order."""
    return hashlib.sha256(b"".join(hashlib.sha256(blob).digest() for blob in blobs)).hexdigest()


@dataclass(frozen=True)
class Handed:
    """A blob with its compile specs, and what its runtime was given."""

    blob: bytes
    specs: tuple[tuple[str, bytes], ...]
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]


@dataclass
class Answer:
    """What the backend did, as far as it came.

    nodes: of the program after its passes. tags: of the partitioner, and those of another one that was asked the same,
    None where there are none yet. rejections: (node, code, found, sentence) of each, None when it never gives any.
    blobs: of all delegates, and of the same partitions compiled again. runs: outputs by what ran, see `answering`.
    expected: what torch computes for a random program; None where torch refuses it.
    early, ran, late: what was noticed in the process while it tagged, while it ran, and after that. error: what ended
    the work. `finished`: nothing did. behind: what was noticed when all was over.
    """

    nodes: tuple[Node, ...] = ()
    tags: Tags | None = None
    tags_again: Tags | None = None
    rejections: tuple[tuple[str, str, str, str], ...] | None = ()
    blobs: list[bytes] | None = None
    blobs_again: list[bytes] = field(default_factory=list)
    handed: list[Handed] = field(default_factory=list)
    runs: dict[str, list[Tensor]] = field(default_factory=dict)
    expected: list[Tensor] | None = None
    early: list[Failure] = field(default_factory=list)
    ran: list[Failure] = field(default_factory=list)
    late: list[Failure] = field(default_factory=list)
    error: Failure | None = None
    finished: bool = False
    behind: list[Failure] = field(default_factory=list)
