"""Our partitioners and compilers work inside ExecuTorch's own API as they do inside ours.

Both entry points of its `to_backend`, its `to_edge_transform_and_lower` and its `to_executorch`: the same tags, the
same blobs, the same results. All of it happens in a process of its own, see `interop`.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import pytest

pytest.importorskip("executorch", reason="the peer is the extra `executorch`")

from tests.crosscheck.executorch import interop

Ask = Callable[..., Any]
ROWS = [(name, row) for name in interop.BACKENDS for row in interop.rows(name)]


@pytest.fixture(scope="module")
def ask() -> Iterator[Ask]:
    """Calls a function in the process that has no backend of ExecuTorch's."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield lambda function, *arguments: pool.submit(function, *arguments).result()


@pytest.mark.long
@pytest.mark.sampled(40)
@pytest.mark.parametrize(("name", "row"), ROWS)
def test_nothing_differs(name: str, row: str, ask: Ask) -> None:
    found = ask(interop.case_problems, name, row)
    assert found
    assert {case: problems for case, problems in found.items() if problems} == {}


@pytest.mark.long
@pytest.mark.sampled(3)
@pytest.mark.parametrize(("vendor", "precision"), interop.NETWORK_RUNS)
def test_a_network_goes_the_whole_way(vendor: str, precision: str, ask: Ask) -> None:
    pytest.importorskip("torchao", reason="the quantizers are the extra `quantize`")
    assert ask(interop.network_problems, "resnet8", vendor, precision) == []


def test_a_partitioner_of_another_mind_is_noticed(ask: Ask) -> None:
    """A partitioner that tags less the second time, and a compiler that is not the same twice."""
    assert ask(interop.problems_of_a_fickle_backend) == [
        "tags differ",
        "function: blobs differ",
        "manager: blobs differ",
    ]


@pytest.mark.parametrize("registered_first", [False, True])
def test_one_name_is_one_compiler(registered_first: bool, ask: Ask) -> None:
    assert ask(interop.is_registered_once)
    message = ask(interop.taken_name, registered_first)
    assert "ExecuTorch has another backend of this name" in message
    assert ("Late" if registered_first else "Early") in message


def test_a_compiler_that_was_there_before_compiles(ask: Ask) -> None:
    assert ask(interop.compiled_by_a_namesake)
