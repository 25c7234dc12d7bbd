"""Linear operators on int8 codes in TFLite, with constant weights and biases as LiteRT's specification requires."""

from __future__ import annotations

import numpy as np

from npu_assay.conformance.interchange.tflite_writer import Codes, Site

SYMMETRIC = "weight_zero_point"


def weights_of(s: Site, name: str, code: str) -> int:
    """The index of the weights, which must be symmetric if constant. code: the id of that constraint."""
    index = s.x(name)
    known = s.known(index)
    if known.data is not None and known.codes is not None and any(known.codes.zero_points):
        raise s.refuse(code, f"{name} has a zero point other than 0")
    return index


def bias_of(s: Site, found: object, x: int, weights: int, count: int) -> int:
    """The index of the bias: an int32 constant of scale input scale * weight scale; zeros if there is none."""
    given, codes = s.known(x).codes, s.known(weights).codes
    assert given is not None and codes is not None
    wanted = np.float32(given.scales[0]) * np.asarray(codes.scales, np.float32)
    made = Codes(tuple(wanted.tolist()), (0,) * len(wanted))
    if found is None:
        return s.constant(np.zeros(count, np.int32), made, "int32")
    known = s.known(s.operand(found))
    fits = known.data is not None and known.dtype == "int32" and known.shape == (count,) and known.codes is not None
    if not fits or known.codes is None or any(known.codes.zero_points):
        raise s.refuse("static_bias", "the bias is not an int32 constant with one number per output")
    found_scales = np.broadcast_to(np.asarray(known.codes.scales, np.float32), wanted.shape)
    if not np.allclose(found_scales, wanted, rtol=1e-5, atol=0):
        raise s.refuse("static_bias", "the scale of the bias is not input scale * weight scale")
    assert known.data is not None
    return s.constant(known.data, made, "int32")


def _fully_connected(s: Site, x: int, weights: int, bias: object) -> None:
    """weights: [outputs, inputs]."""
    outputs = s.shape(weights)[0]
    inputs = [x, weights, bias_of(s, bias, x, weights, outputs)]
    s.done("FULLY_CONNECTED", *inputs, fusedActivationFunction=s.fused, keepNumDims=len(s.sizes) != 2)


def linear(s: Site) -> None:
    """x @ weight.T + bias: FULLY_CONNECTED."""
    _fully_connected(s, s.x("input"), weights_of(s, "weight", SYMMETRIC), s["bias"])


def addmm(s: Site) -> None:
    """addmm as FULLY_CONNECTED: mat2 is transposed, and the bias is self."""
    for name in ("alpha", "beta"):
        if s[name] != 1:
            raise s.refuse(name, f"FULLY_CONNECTED has no {name}")
    _fully_connected(s, s.x("mat1"), s.permuted(weights_of(s, "mat2", SYMMETRIC), (1, 0)), s["self"])


def mm(s: Site) -> None:
    """self @ mat2: FULLY_CONNECTED, with mat2 transposed."""
    _fully_connected(s, s.x(), s.permuted(weights_of(s, "mat2", SYMMETRIC), (1, 0)), None)


def batched_product(s: Site) -> None:
    """Matrix products per batch: BATCH_MATMUL."""
    s.done("BATCH_MATMUL", s.x(), s.x("mat2"), adjX=False, adjY=False)
