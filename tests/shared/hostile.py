"""Damaged blobs by the thousand, for tests of readers: each must be refused or run, in bounded time and memory."""

from __future__ import annotations

import resource
import struct
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
import torch
from hypothesis import Phase, given, seed, settings
from hypothesis import strategies as st

BATCH, EXAMPLES = 100, 100
SECONDS_EACH, GROWTH = 5.0, 2**30
EXTREMES = (0, 1, 2, 4, 8, 0x7F, 0x80, 0xFFFF, 0x10000, 0x7FFFFFFF, 0x80000000, 0xFFFFFFF0, 0xFFFFFFFF)


def mutated(blob: bytes, random: np.random.Generator) -> bytes:
    """One of: flipped bits, a truncation, spliced words, a huge number, a repeated or a removed part."""
    data = bytearray(blob)
    place = int(random.integers(len(data)))
    word = 4 * int(random.integers(len(data) // 4))
    match int(random.integers(7)):
        case 0:
            for at in random.integers(len(data), size=int(random.integers(1, 9))):
                data[at] ^= 1 << int(random.integers(8))
        case 1:
            del data[place:]
        case 2:
            other = 4 * int(random.integers(len(data) // 4))
            data[word : word + 4] = data[other : other + 4]
        case 3:
            struct.pack_into("<I", data, word, int(random.choice(EXTREMES)))
        case 4:
            struct.pack_into("<I", data, word, int(random.integers(len(data))))
        case 5:
            data[place:place] = data[word : word + 64]
        case _:
            struct.pack_into("<H", data, 2 * (place // 2) % (len(data) - 2), int(random.integers(2**16)))
    return bytes(data)


def _peak_bytes() -> int:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak


def outcomes(blobs: Sequence[bytes], outcome: Callable[[bytes, torch.Generator], str]) -> Counter[str]:
    """How often each outcome came of BATCH * EXAMPLES mutations of the blobs.

    Fails when one takes more processor time than SECONDS_EACH, or all together more memory than GROWTH bytes.
    """
    found, before = Counter[str](), _peak_bytes()

    @seed(20)
    @settings(max_examples=EXAMPLES, deadline=None, database=None, phases=[Phase.generate])
    @given(st.integers(0, 2**63 - 1))
    def batch(number: int) -> None:
        random, generator = np.random.default_rng(number), torch.Generator().manual_seed(number)
        for _ in range(BATCH):
            blob = mutated(blobs[int(random.integers(len(blobs)))], random)
            start = time.process_time()  # a loaded machine takes as much of it
            found[outcome(blob, generator)] += 1
            assert time.process_time() - start < SECONDS_EACH

    batch()
    assert found.total() >= BATCH * EXAMPLES
    assert _peak_bytes() - before < GROWTH
    return found
