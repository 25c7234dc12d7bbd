"""How much of the tests a run takes: all of them, or a sample that is drawn by a seed.

`pytest` alone, for the tests of the whole folder, takes a sample; what is named on the command line runs whole.
`--whole` and `--sample` say otherwise. In a sample, a test with the mark `sampled(n)` runs for n of its parameters, one
in SHARE of all those with the mark `long` runs, none with the mark `slow`, and each backend on CASES of its cases. The
seed is printed; `--seed` repeats it.
"""

from __future__ import annotations

import random
import secrets
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import pytest

CASES = 250
SHARE = 6
MARKS = (
    "sampled(n): a sample of the tests runs this one for n of its parameters, drawn by the run's seed",
    f"long: a sample of the tests runs one in {SHARE} of these, drawn by the run's seed",
    "slow: a sample of the tests leaves this one out",
)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("sampling")
    group.addoption("--whole", action="store_true", help="run every test")
    group.addoption("--sample", action="store_true", help="run a sample of the tests that are named")
    group.addoption("--seed", type=int, metavar="SEED", help="the seed of the sample, else a new one")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    for mark in MARKS:
        config.addinivalue_line("markers", mark)
    if getattr(config.option, "dist", "no") == "load":
        config.option.dist = "worksteal"  # tests that start processes take a hundred times as long as others
    given = getattr(config, "workerinput", None)  # a worker of xdist's draws what its run draws
    if given is not None:
        config.option.sample, config.option.seed = given["sample"], given["seed"]
    elif _samples(config):
        config.option.sample = True
        config.option.seed = secrets.randbelow(10**6) if config.option.seed is None else config.option.seed
    if not config.option.sample:
        return
    config.option.assay_sample = CASES
    config.option.assay_sample_seed = config.option.seed


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Xdist starts a worker."""
    node.workerinput |= {"sample": node.config.option.sample, "seed": node.config.option.seed}


def _samples(config: pytest.Config) -> bool:
    option = config.option
    everything = config.args_source is not pytest.Config.ArgsSource.ARGS and not option.keyword
    return not option.whole and not option.smoke and (option.sample or everything)


def pytest_report_header(config: pytest.Config) -> str:
    return _told(config)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    terminalreporter.write_line(_told(config))


def _told(config: pytest.Config) -> str:
    if not config.option.sample:
        return "sample: none, what is named runs whole"
    return f"sample: seed {config.option.seed} (--sample --seed {config.option.seed} repeats it, --whole runs all)"


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.option.sample:
        return
    left_out = set(_left_out(items, config.option.seed))
    compared = [item.nodeid for item in left_out if "snapshot" in getattr(item, "fixturenames", ())]
    if compared:  # syrupy would call their snapshots unused, and fail the run
        raise pytest.UsageError(
            f"{compared[0]}: found a mark that leaves it out of a sample, expected none: it has snapshots"
        )
    items[:] = [item for item in items if item not in left_out]
    config.hook.pytest_deselected(items=list(left_out))


def _left_out(items: Iterable[pytest.Item], seed: int) -> Iterable[pytest.Item]:
    """Drawn from each test's parameters first, then from all long tests that are left."""
    sampled, long = defaultdict[str, list[pytest.Item]](list), list[pytest.Item]()
    for item in items:
        if item.get_closest_marker("slow"):
            yield item
        elif item.get_closest_marker("sampled"):
            sampled[item.nodeid.partition("[")[0]].append(item)
        elif item.get_closest_marker("long"):
            long.append(item)
    for name, group in sampled.items():
        mark = group[0].get_closest_marker("sampled")
        assert mark is not None
        drawn = _drawn(group, mark.args[0], f"{seed} {name}")
        yield from (item for item in group if item not in drawn)
        long += [item for item in drawn if item.get_closest_marker("long")]
    drawn = _drawn(long, -(-len(long) // SHARE), f"{seed} long")
    yield from (item for item in long if item not in drawn)


def _drawn(group: Sequence[pytest.Item], count: int, seed: str) -> list[pytest.Item]:
    return random.Random(seed).sample(group, min(count, len(group)))
