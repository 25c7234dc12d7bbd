"""Jobs of many runners are one call's, and each gets its own answer."""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from places import ROOT

from npu_assay.conformance.devices import gather
from npu_assay.conformance.devices.command import Command
from npu_assay.conformance.devices.machine import MachineError

BOARD = ROOT / "tests" / "shared" / "misbehaving_board.py"
X = torch.arange(6, dtype=torch.int8)


@pytest.fixture
def device(tmp_path: Path) -> Iterator[Command]:
    """A board for all threads of this process."""
    command = Command(f"{sys.executable} {BOARD} refuses {{folder}}", folder=str(tmp_path))
    process = gather.start(command)
    assert process is not None
    yield command
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)


def test_many_jobs_are_few_calls(device: Command, tmp_path: Path) -> None:
    with ThreadPoolExecutor(16) as threads:
        found = list(threads.map(lambda number: device.run(b"good", [X + number]), range(48)))
    assert all(torch.equal(each[0], X + number + 1) for number, each in enumerate(found))
    assert (tmp_path / "calls").stat().st_size <= 12


def test_a_refusal_is_told_to_who_asked(device: Command) -> None:
    with ThreadPoolExecutor(2) as threads:
        bad, good = threads.submit(device.run, b"bad", [X]), threads.submit(device.run, b"good", [X])
    assert torch.equal(good.result()[0], X + 1)
    with pytest.raises(MachineError, match="no memory for this model"):
        bad.result()


def test_another_such_process_takes_the_place_of_one_that_ended(device: Command, tmp_path: Path) -> None:
    """As where a case ends the process that runners are forked from: what takes jobs ends with it."""
    before = device.door
    process = gather.start(device)
    assert process is not None and device.door != before
    try:
        assert torch.equal(device.run(b"good", [X])[0], X + 1)
    finally:
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)


def test_a_process_that_is_gone_is_a_reason(tmp_path: Path) -> None:
    gone = Command("true {folder}", folder=str(tmp_path), door=str(tmp_path / "door"))
    with pytest.raises(MachineError, match="the process that calls the device does not answer: No such file"):
        gone.run(b"", [X])


def test_noise_at_the_door_harms_nobody_else(device: Command) -> None:
    for data in (b"noise" * 10, (2**60).to_bytes(8, "big"), b""):
        with socket.socket(socket.AF_UNIX) as wire:
            wire.connect(device.door)
            wire.sendall(data)
    assert torch.equal(device.run(b"good", [X])[0], X + 1)
