"""Why Vela refuses CONV3D in 16 bits for Ethos-U55: the RESCALE after it is not fused, and sums of 48 bits are left.

docs/reports/findings/arm-conv3d-int16.md tells the reason by Vela's source; here are graphs that it foretells. Needs
tosa-tools and ethos-u-vela.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tosa_building import Building

from npu_assay.partitioners.ethosu.tosa_format import write
from tests.crosscheck.tosa.compilers import command_bytes

REFUSAL = r"Non-passthrough operation \(Conv2D\) could not run on NPU"
REFUSED = {("CONV3D", 5, 1), ("CONV3D", 5, 2), ("CONV2D", 5, 2)}
"""What is refused for Ethos-U55 in 16 bits: convolution, eighths of the RESCALEs' factor, their number."""


def convolution(code: str, bits: int, eighths: int, rescales: int) -> bytes:
    """A convolution of kernel 1 whose sums go through as many RESCALEs, with a factor of eighths."""
    building, wide = Building(), bits == 16
    dtype, sums, scales, shift = (f"INT{bits}", "INT48", "INT16", 14) if wide else (f"INT{bits}", "INT32", "INT32", 30)
    planes = (4,) if code == "CONV3D" else ()
    x = building.input(np.zeros((1, *planes, 6, 7, 3)), dtype)
    weights = building.constant(np.arange(15).reshape(5, *(1 for _ in planes), 1, 1, 3) - 7, "INT8")
    zero, weight_zero = building.constant([0], dtype), building.constant([0], "INT8")
    axes = 2 + len(planes)
    found = building.apply(
        code,
        *(x, weights, building.constant([0] * 5, sums), zero, weight_zero),
        pad=(0,) * 2 * axes,
        stride=(1,) * axes,
        dilation=(1,) * axes,
        acc_type=sums,
    )
    outputs = []
    for _ in range(rescales):
        by = building.constant([eighths << shift - 3], scales), building.constant([shift], "INT8")
        zeros = building.constant([0], sums), building.constant([0], dtype)
        how = {"scale32": not wide, "rounding_mode": "SINGLE_ROUND", "per_channel": False}
        signs = {"input_unsigned": False, "output_unsigned": False}
        outputs.append(building.apply("RESCALE", found, *by, *zeros, target=dtype, **how, **signs))
    return write(building.program(*outputs).model)


@pytest.mark.parametrize(("eighths", "rescales"), [(8, 1), (5, 1), (5, 2)])
@pytest.mark.parametrize("bits", [8, 16])
@pytest.mark.parametrize("code", ["CONV3D", "CONV2D"])
@pytest.mark.parametrize("device", ["u55", "u85"])
def test_vela_refuses_sums_of_48_bits_alone(
    device: str, code: str, bits: int, eighths: int, rescales: int, tmp_path: Path
) -> None:
    blob = convolution(code, bits, eighths, rescales)
    if (device, bits) == ("u55", 16) and (code, eighths, rescales) in REFUSED:
        with pytest.raises(RuntimeError, match=REFUSAL):
            command_bytes(blob, device, tmp_path)
    else:
        assert command_bytes(blob, device, tmp_path) > 0
