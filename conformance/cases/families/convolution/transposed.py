"""Transposed convolutions in static int8."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from npu_assay.conformance.cases.drafts import CaseDraft, inside, limit, outside, silent
from npu_assay.conformance.cases.families.convolution.static import operand_quant, shifted, with_operand
from npu_assay.conformance.cases.limits import Limits
from npu_assay.conformance.cases.make import (
    Call,
    Q,
    X,
    activation,
    bias_quant,
    constant,
    fitting_weight_scale,
    quant,
    spread,
    weight_quant,
)
from npu_assay.conformance.cases.pieces.spelling import CONVOLUTION
from npu_assay.conformance.cases.pieces.values import fills, one_hots
from npu_assay.conformance.programs.graph import Ref


def _transposed(
    cin: int,
    cout: int,
    size: tuple[int, int] = (1, 8),
    kernel: tuple[int, int] = (1, 2),
    stride: tuple[int, int] = (1, 2),
    padding: tuple[int, int] = (0, 0),
    dilation: tuple[int, int] = (1, 1),
    output_padding: tuple[int, int] = (0, 0),
    groups: int = 1,
    batch: int = 1,
) -> Call:
    """A transposed convolution; torch keeps its weights as [in, out / groups, height, width]."""
    scale = 2 * fitting_weight_scale(Q, Q, cin)
    w = weight_quant(spread(scale, cout), 1) if groups == 1 else weight_quant(scale)
    bias = bias_quant(Q, w)
    values = (
        activation("x", (batch, cin, *size)),
        constant("w", (cin, cout // groups, *kernel), w),
        constant("bias", (cout,), bias),
    )
    args = (X, Ref("w"), Ref("bias"), stride, padding, dilation, True, output_padding, groups)
    return Call(CONVOLUTION, values, args, Q)


def static_transposed_cases(precision: str, limits: Limits) -> list[CaseDraft]:
    """Kernel 1 x even, stride (1, kernel) or, for one output row, (1, kernel / 2); dilation 1; channels of 8."""
    code, m = "transposed", limits.multiple("transposed")
    less, more = m - 1, m + 1

    def transposed(cin: int = m, cout: int = 2 * m, **kwargs: Any) -> Call:
        return _transposed(cin, cout, **kwargs)

    fits: dict[str, dict[str, Any]] = {
        "kernel_2": {},
        "kernel_2_height_3": {"size": (3, 5)},
        "kernel_4_stride_4": {"kernel": (1, 4), "stride": (1, 4)},
        "kernel_4_stride_2": {"kernel": (1, 4), "stride": (1, 2)},
        "kernel_4_stride_4_height_3": {"kernel": (1, 4), "stride": (1, 4), "size": (3, 5)},
        f"channels_{2 * m}_to_{m}": {"cin": 2 * m, "cout": m},
    }
    past: dict[str, dict[str, Any]] = {
        "kernel_3": {"kernel": (1, 3), "stride": (1, 3)},
        "kernel_1": {"kernel": (1, 1), "stride": (1, 1)},
        "kernel_height_2": {"kernel": (2, 2)},
        "kernel_height_2_stride_2": {"kernel": (2, 2), "stride": (2, 2)},
        "stride_h_2": {"stride": (2, 2), "size": (3, 5)},
        "stride_w_1": {"stride": (1, 1)},
        "stride_w_3": {"stride": (1, 3)},
        "kernel_4_stride_3": {"kernel": (1, 4), "stride": (1, 3)},
        "kernel_4_stride_2_height_3": {"kernel": (1, 4), "stride": (1, 2), "size": (3, 5)},
        "kernel_6_stride_3": {"kernel": (1, 6), "stride": (1, 3)},
        "dilation_w_2": {"dilation": (1, 2)},
        f"inputs_{less}": {"cin": less},
        f"inputs_{more}": {"cin": more},
        f"outputs_{less}": {"cout": less},
        f"outputs_{more}": {"cout": more},
        "outputs_1": {"cout": 1},
        "one_to_one": {"cin": 1, "cout": 1},
    }
    open_: dict[str, dict[str, Any]] = {
        "padding_w_1": {"kernel": (1, 4), "stride": (1, 4), "padding": (0, 1)},
        "padding_w_1_height_3": {"kernel": (1, 4), "stride": (1, 4), "padding": (0, 1), "size": (3, 5)},
        "output_padding_w_1": {"output_padding": (0, 1)},
        "dilation_h_2": {"dilation": (2, 1)},
        "groups_2": {"groups": 2},
        "depthwise": {"cin": m, "cout": m, "groups": m},
    }
    return [
        *(limit(code, name, transposed(**kwargs)) for name, kwargs in fits.items()),
        *(outside(code, name, transposed(**kwargs)) for name, kwargs in past.items()),
        *(silent(code, name, transposed(**kwargs)) for name, kwargs in open_.items()),
        outside("batch", "2_transposed", transposed(batch=2)),
        *_transposed_operands(transposed(), 2 * m),
        *fills(transposed(size=(1, 5)), label="_transposed"),
        *one_hots(transposed(size=(2, 3)), label="_transposed"),
    ]


def _transposed_operands(u: Call, outputs: int) -> list[CaseDraft]:
    w = u.value("w")
    computed = replace(w, quant=quant(0.01, 0), constant=False)
    bias = constant("bias", (outputs,), bias_quant(Q, operand_quant(computed)))
    computed_bias = activation("bias", (outputs,), quant(0.01, 0))
    return [
        outside("static_weights", "transposed_computed", with_operand(with_operand(u, "w", computed), "bias", bias)),
        outside("static_weights", "transposed_zero_point_1", with_operand(u, "w", shifted(w))),
        inside("static_bias", "none_transposed", with_operand(u, "bias", None)),
        outside("static_bias", "transposed_computed", with_operand(u, "bias", computed_bias)),
    ]
