"""Random models: the simulated NPU against LiteRT's reference kernels, on the flatbuffers of all their delegates."""

from __future__ import annotations

import pytest
from random_graphs import random_graph

from tests.crosscheck.device_runs import differing, runs

SEEDS = range(1000, 1060)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("first", SEEDS[::10])
def test_no_output_differs(first: int) -> None:
    compared = {seed: [differing(*run) for run in runs(random_graph(seed))] for seed in range(first, first + 10)}
    assert sum(map(len, compared.values())) >= 10  # most models have a delegate, each runs twice
    assert {seed: counts for seed, counts in compared.items() if any(counts)} == {}
