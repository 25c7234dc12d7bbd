"""The four networks' delegates: the simulated NPU against LiteRT's reference kernels, on the same bytes."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torchao", reason="the quantizer is the extra `quantize`")
pytest.importorskip("ai_edge_litert", reason="the peer is the extra `litert`")

import torch
from networks import NETWORKS, lowered_modules, network, quantise, samples

from npu_assay.partitioners.exir import to_edge
from npu_assay.partitioners.exir.run import run_delegate
from npu_assay.partitioners.neutron import NeutronRuntime, backend
from tests.crosscheck.litert import run_litert

# torch's own export code and torchao call deprecated torch functions; nothing here can change that.
pytestmark = [
    pytest.mark.filterwarnings("ignore:`isinstance.treespec, LeafSpec.` is deprecated:FutureWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:torchao"),
]
FULL_RANGE_INPUTS = 5


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", NETWORKS)
def test_no_output_differs(name: str) -> None:
    """Random codes over the full range, then all lowest and all highest."""
    model, shape = network(name)
    edge = to_edge(quantise(model, samples(shape, 4)))
    (module,) = lowered_modules(edge.transform(list(backend.passes)).to_backend(backend.partitioner()))
    generator = torch.Generator().manual_seed(3)
    inputs = [torch.randint(-128, 128, shape, generator=generator).to(torch.int8) for _ in range(FULL_RANGE_INPUTS)]
    inputs += [torch.full(shape, code, dtype=torch.int8) for code in (-128, 127)]
    for codes in inputs:
        (ours,) = run_delegate(module, [codes], {"NeutronBackend": NeutronRuntime()})
        (theirs,) = run_litert(module.processed_bytes, [codes.numpy()])
        np.testing.assert_array_equal(ours.numpy(), theirs)
