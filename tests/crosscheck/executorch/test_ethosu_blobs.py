"""Our device runs what ExecuTorch's own Arm compiler writes: 0 outputs differ from the TOSA reference model's.

Each model goes through ExecuTorch's quantizer, partitioner and compiler for a TOSA specification; the flatbuffers of
its delegates then run on random codes.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import numpy as np
import pytest

pytest.importorskip("torchao", reason="ExecuTorch's quantizer needs it")
pytest.importorskip("tosa_reference_model", reason="it says what the flatbuffers mean")

import torch
from ethosu_modules import SAMPLES

from npu_assay.partitioners.ethosu import tosa_format
from npu_assay.partitioners.ethosu.tosa_model import NUMPY_TYPES, Array, TModel
from tests.crosscheck.tosa.model import run_device, run_reference

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # see ethosu_peer
    from executorch.backends.arm.quantizer import (
        TOSAQuantizer,
        get_symmetric_a16w8_quantization_config,
        get_symmetric_quantization_config,
    )
    from executorch.backends.arm.tosa.compile_spec import TosaCompileSpec
    from executorch.backends.arm.tosa.partitioner import TOSAPartitioner
    from executorch.exir import to_edge_transform_and_lower
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

pytestmark = [
    pytest.mark.filterwarnings("ignore:`isinstance.treespec, LeafSpec.` is deprecated:FutureWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]
U55, U85 = "TOSA-1.0+INT+int16+int4+u55", "TOSA-1.0+INT+int16+int4+cf"
NARROW, WIDE = get_symmetric_quantization_config(), get_symmetric_a16w8_quantization_config()
RUNS, CALIBRATIONS = 3, 2
_NAMES = (
    "add sub mul maximum abs sigmoid tanh gelu hardswish relu leaky_relu clamp conv2d conv2d_relu conv2d_depthwise "
    "conv2d_grouped conv2d_norm_relu conv1d conv_transpose2d residual linear linear_relu matmul softmax mean "
    "layer_norm avg_pool2d max_pool2d adaptive_avg_pool2d amax cat slice_strided permute pad nearest_2"
)
ON_U55 = _NAMES.split()
ON_U85 = ["conv2d", "conv3d", "bilinear_2", "where", "gt", "any", "group_norm", "log_softmax", "attention", "cumsum"]
WITH_WIDE = ["conv2d", "conv2d_depthwise", "linear", "softmax", "tanh", "add", "mul", "avg_pool2d"]
CASES = [
    *(pytest.param(name, U55, NARROW, id=f"{name}-u55-int8") for name in ON_U55),
    *(pytest.param(name, U85, NARROW, id=f"{name}-u85-int8") for name in ON_U85),
    *(pytest.param(name, U85, WIDE, id=f"{name}-u85-int16") for name in WITH_WIDE),
]


def delegates(name: str, spec: str, config: object) -> list[bytes]:
    """The TOSA flatbuffers that ExecuTorch makes of a sample."""
    sample, compile_spec = SAMPLES[name], TosaCompileSpec(spec)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exported = torch.export.export(sample.model(name), sample.inputs(0))
        quantizer = TOSAQuantizer(compile_spec).set_global(config)
        prepared = prepare_pt2e(exported.module(check_guards=False), quantizer)
        for seed in range(CALIBRATIONS):
            prepared(*sample.inputs(seed))
        program = torch.export.export(convert_pt2e(prepared), sample.inputs(0))
        lowered = to_edge_transform_and_lower(program, partitioner=[TOSAPartitioner(compile_spec)])
    modules = lowered.exported_program().graph_module.named_children()
    return [module.processed_bytes for _, module in modules if hasattr(module, "processed_bytes")]


def draws(model: TModel) -> Iterator[list[Array]]:
    """Codes of the full range; booleans where the graph takes them."""
    random = np.random.default_rng(3)
    ports = {tensor.name: tensor for tensor in model.tensors}
    for _ in range(RUNS):
        yield [_codes(random, ports[name].dtype, ports[name].shape) for name in model.inputs]


def _codes(random: np.random.Generator, dtype: str, shape: tuple[int, ...]) -> Array:
    low, high = {"BOOL": (0, 2), "INT8": (-128, 128)}.get(dtype, (-32767, 32768))
    return random.integers(low, high, shape).astype(NUMPY_TYPES[dtype])


@pytest.mark.long
@pytest.mark.sampled(12)
@pytest.mark.parametrize(("name", "spec", "config"), CASES)
def test_the_device_equals_the_reference_model(name: str, spec: str, config: object) -> None:
    blobs, compared = delegates(name, spec, config), 0
    assert blobs
    for blob in blobs:
        for inputs in draws(tosa_format.read(blob)):
            expected, found = run_reference(blob, inputs), run_device(blob, inputs)
            assert (expected is None) == (found is None)
            for wanted, given in zip(expected or (), found or (), strict=True):
                np.testing.assert_array_equal(np.asarray(wanted), given, strict=True)
                compared += given.size
    assert compared
