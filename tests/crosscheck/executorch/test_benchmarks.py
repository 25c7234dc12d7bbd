"""The benchmarks that have ExecuTorch beside them print both sides."""

from __future__ import annotations

import re

import pytest

from tests.benchmarks.test_benchmarks import NUMBER, output


@pytest.mark.long
def test_the_edge_dialect_is_timed_beside_executorch() -> None:
    found = output("exir.py --rounds 1 --single --lower")
    for stage in ("to_edge", "lower"):
        assert re.search(rf"{stage} +relu{NUMBER}{NUMBER} ms{NUMBER} ms{NUMBER}x", found), found


@pytest.mark.long
def test_program_files_are_timed_beside_executorch() -> None:
    found = output("program_files.py deep_autoencoder")
    assert re.search(rf"deep_autoencoder{NUMBER} ms{NUMBER} ms{NUMBER}{NUMBER}{NUMBER} ms{NUMBER}{NUMBER}x", found)


@pytest.mark.long
def test_a_model_is_lowered_and_run_beside_executorch() -> None:
    """To the same delegates, and with the same outputs bit for bit."""
    found = output("zoo_executorch.py --out /dev/null -k torch/spectrogram --rounds 1")
    side = rf"0 left, 1 delegate,{NUMBER} ms"
    assert re.search(rf"torch/spectrogram \| {side} \| {side} \|{NUMBER} \| equal", found), found


@pytest.mark.slow
def test_cases_are_timed_beside_the_operator_suite() -> None:
    found = output("peers.py --rows 1")
    assert re.search(rf"processor time, ExecuTorch / assay: median{NUMBER}x, smallest{NUMBER}x", found), found
