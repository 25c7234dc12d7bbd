"""Whole networks: the simulated device equals the TOSA reference model, and Vela compiles every delegate."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torchao", reason="the quantizer is the extra `quantize`")

import torch
from networks import lowered_modules

from npu_assay.partitioners.ethosu.tosa_format import read
from tests.crosscheck.tosa.compilers import command_bytes
from tests.crosscheck.tosa.model import run_device, run_reference
from tests.partitioners.ethosu.test_networks_ethosu import RUNS, U55, lowered

# torch's own export code and torchao call deprecated torch functions; nothing here can change that.
pytestmark = [
    pytest.mark.filterwarnings("ignore:`isinstance.treespec, LeafSpec.` is deprecated:FutureWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:torchao"),
]
INPUTS = 3
TYPES = {"INT8": torch.int8, "INT16": torch.int16}


def random_codes(blob: bytes, seed: int) -> list[np.ndarray]:
    """Numbers of the whole range for each input of a graph."""
    model, generator = read(blob), torch.Generator().manual_seed(seed)
    named = {tensor.name: tensor for tensor in model.tensors}
    found = []
    for tensor in (named[name] for name in model.inputs):
        dtype = TYPES[tensor.dtype]
        info = torch.iinfo(dtype)
        codes = torch.randint(info.min, info.max + 1, tensor.shape, generator=generator, dtype=torch.int32)
        found.append(codes.to(dtype).numpy())
    return found


def blobs(name: str, precision: str, target: str) -> list[bytes]:
    return [module.processed_bytes for module in lowered_modules(lowered(name, precision, target)[0])]


@pytest.mark.long
@pytest.mark.sampled(4)
@pytest.mark.parametrize(("name", "precision", "target"), RUNS)
def test_no_output_differs(name: str, precision: str, target: str) -> None:
    for blob in blobs(name, precision, target):
        for seed in range(INPUTS):
            codes = random_codes(blob, seed)
            expected, found = run_reference(blob, codes), run_device(blob, codes)
            assert expected is not None and found is not None
            for e, f in zip(expected, found, strict=True):
                np.testing.assert_array_equal(np.asarray(e), f, strict=True)


@pytest.mark.long
@pytest.mark.sampled(3)
@pytest.mark.parametrize(("name", "precision", "target"), RUNS)
def test_vela_compiles_everything(name: str, precision: str, target: str, tmp_path: Path) -> None:
    """Each delegate to one command stream for the NPU: Vela leaves nothing of a TOSA graph to the CPU."""
    device = "u55" if target == U55 else "u85"
    for blob in blobs(name, precision, target):
        assert command_bytes(blob, device, tmp_path) > 0


def test_a_changed_input_would_be_seen() -> None:
    (blob,) = blobs("deep_autoencoder", "int8", U55)
    codes = random_codes(blob, 0)
    expected = run_reference(blob, codes)
    assert expected is not None
    codes[0][0, 0] ^= 0x40
    found = run_device(blob, codes)
    assert found is not None
    with pytest.raises(AssertionError, match="Mismatched elements"):
        np.testing.assert_array_equal(np.asarray(expected[0]), found[0], strict=True)
