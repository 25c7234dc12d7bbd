"""The list of Neutron's faults, made from its rules, from TFLite's schema, and from schemes and kernels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from typing import Any
from unittest.mock import patch

import torch

from npu_assay.faults import Fault, Made, Patch, blobs, kernels, rules, together
from npu_assay.faults.listing import listed
from npu_assay.partitioners.common.int8 import conv, elementwise, matmul, output, pool
from npu_assay.partitioners.common.machine import Kernel
from npu_assay.partitioners.common.rescale import double_rounder
from npu_assay.partitioners.exir.backend import Backend
from npu_assay.partitioners.exir.flatbuffer import Scalar
from npu_assay.partitioners.neutron import (
    NeutronPartitioner,
    NeutronTargetSpec,
    backend,
    backend_1_4,
    generate_neutron_compile_spec,
    partitioner,
    tflite,
    tflite_schema,
)
from npu_assay.partitioners.neutron.device.operators import RULES
from npu_assay.partitioners.neutron.operators import operators
from npu_assay.partitioners.neutron.passes import DivideToMultiply
from npu_assay.partitioners.neutron.releases import FIRST, RELEASES
from npu_assay.partitioners.neutron.support.rules import RULES_OF
from npu_assay.partitioners.neutron.support.stage import DATA_ONLY, NEUTRAL
from npu_assay.partitioners.neutron.target import TARGETS
from npu_assay.reference.affine import Affine

# ------------------------------------------------------------------------------------ rules

# Pairs of a code and an operator that no program breaks: torch has no such operator, or makes no such tensor.
IMPOSSIBLE = frozenset(
    {
        ("rank", "aten.addmm.default"),
        ("rank", "aten.mm.default"),
        ("rank", "aten.bmm.default"),
        ("static_shape", "aten.upsample_nearest2d.vec"),
        ("rescale", "aten.mean.dim"),  # with the same scale in and out, the sum is too large for memory first
    }
)
# Rows that a pass makes other operators of: their cases are those of the rows.
ROWS = {
    "aten.max_pool2d_with_indices.default": "aten.max_pool",
    "aten.view_copy.default": "aten.",
    "dim_order_ops._clone_dim_order.default": "aten.dim_order_ops._clone_dim_order.default",
}
JUDGES = ((partitioner, "node_rejections"), (partitioner, "stage_rejections"))
TURNED = "channels_multiple_of positions batch static_bias transposed output_divides_input scale sliced_dim_multiple_of"
# Ways to misread an argument after which every rule that reads it says the same, or stops.
ALIKE = ("wrong_default_of_value", "wrong_sign_of_dims")


def _codes(target: str, release: str) -> Iterator[str]:
    row = operators(release)[target]
    found = ["quantized", "static_shape", *(rule.code for rule in RULES_OF[release][target])]
    found += [rule.code for rule in row.stage]
    if target in DATA_ONLY or target in NEUTRAL:
        found.append("not_alone")
    if row.problem is not None:
        found.append("rescale")
    return (code for code in found if (code, target) not in IMPOSSIBLE)


def _dropped(release: str = FIRST) -> Iterator[Made]:
    """One fault for every rule of every operator that the release before does not have as it is."""
    before = {} if release == FIRST else RULES_OF[RELEASES[RELEASES.index(release) - 1]]
    targets = [target for target, found in RULES_OF[release].items() if before.get(target) != found]
    return rules.dropped({target: list(_codes(target, release)) for target in targets}, ROWS, *JUDGES)


def with_macs(macs: int) -> Backend:
    """The backend of an NPU with another number of multiply-accumulate units."""
    targets = {name: replace(target, num_macs=macs) for name, target in TARGETS.items()}

    def make() -> NeutronPartitioner:
        return NeutronPartitioner(generate_neutron_compile_spec("imxrt700"), NeutronTargetSpec("imxrt700", targets))

    passes = tuple(DivideToMultiply(macs) if isinstance(one, DivideToMultiply) else one for one in backend.passes)
    return replace(backend, partitioner=make, passes=passes)


def _rules() -> Iterator[Made]:
    first = RULES_OF[FIRST]
    possible = {target: [r for r in first[target] if (r.code, target) not in IMPOSSIBLE] for target in first}
    yield from (
        (kind, f"multiple_of_{macs}", ("aten.mean.dim/channels_multiple_of/",), lambda _, macs=macs: with_macs(macs))
        for kind, macs in (("loosened", 4), ("tightened", 16))
    )
    yield rules.unstable("aten.abs.default/operator/", *JUDGES)
    yield from _dropped()
    yield from rules.misnamed({target: list(_codes(target, FIRST)) for target in first}, *JUDGES)
    yield from rules.of_numbers(possible, ROWS)
    yield from rules.of_arguments(possible, ROWS, ALIKE)
    yield from rules.of_sizes(TURNED.split())


# ------------------------------------------------------------------------------------ blobs

PRODUCTS = "CONV_2D DEPTHWISE_CONV_2D FULLY_CONNECTED"
BEGINNINGS = {
    "AVERAGE_POOL_2D": "avg_pool2d",
    "BATCH_MATMUL": "bmm",
    "CONCATENATION": "cat",
    "CONV_2D": "convolution",
    "DEPTHWISE_CONV_2D": "convolution",
    "FULLY_CONNECTED": "addmm",
    "LOGISTIC": "sigmoid",
    "MAX_POOL_2D": "max_pool2d",
    "PAD": "constant_pad",
    "PADV2": "constant_pad",
    "REDUCE_MAX": "amax",
    "REDUCE_MIN": "amin",
    "RELU6": "hardtanh",
    "RELU_0_TO_1": "hardtanh",
    "RELU_N1_TO_1": "hardtanh",
    "RESHAPE": "view",
    "RESIZE_BILINEAR": "upsample_bilinear",
    "RESIZE_NEAREST_NEIGHBOR": "upsample_nearest",
    "SOFTMAX": "_softmax",
    "TRANSPOSE": "permute",
    "TRANSPOSE_CONV": "convolution",
}
# Fields whose default is all that the compiler writes, or that the device does not look at.
UNREAD = (
    "asymmetric_quantize_inputs",
    "fused_activation_function",
    "keep_num_dims",
    "new_shape",
    "pot_scale_int16",
    "quantized_bias_type",
    "weights_format",
)


def _fields(code: str) -> blobs.Fields:
    table, enums = tflite_schema.OPTIONS.get(tflite_schema.OPERATORS[code].options), tflite_schema.ENUMS
    return {
        name: (kind, enums[name][0] if name in enums else kind.default if isinstance(kind, Scalar) else ())
        for name, (_, kind) in (table.fields.items() if table else ())
    }


def _form(release: str) -> blobs.Format:
    begun = {code: BEGINNINGS.get(code, code.lower()) for code in tflite_schema.OPERATORS}
    rows = {code: row for code, row in begun.items() if any(n.startswith(f"aten.{row}") for n in RULES_OF[release])}
    schema = {code: _fields(code) for code in tflite_schema.OPERATORS}
    return blobs.Format(
        tflite.read,
        tflite.write,
        "operators",
        "code",
        "options",
        {"tensors": "data"},
        schema,
        {**rows, "bias_less": "addmm"},
    )


def _blobs(form: blobs.Format) -> Iterator[Made]:
    yield from blobs.of_fields(form, UNREAD)
    yield from blobs.of_operators(form, "fused_activation", "RELU RELU6", "RELU_0_TO_1 RELU_N1_TO_1")
    yield from blobs.of_operators(form, "operator", "LOGISTIC TANH", "AVERAGE_POOL_2D MAX_POOL_2D")
    yield from blobs.of_operands(form, "BATCH_MATMUL CONCATENATION")
    yield from blobs.of_constants(
        form,
        ("bias", "bias", PRODUCTS, 2, "dropped reversed less"),
        ("layout", "weights", PRODUCTS, 1, "transposed reversed"),
        ("weights", "weights", PRODUCTS, 1, "negated of_7_bits"),
        ("per_channel", "scales", PRODUCTS, 1, "reversed first_for_all"),
        ("scale", "scales", PRODUCTS, 0, "larger"),
        ("zero_point", "zero_points", "ABS ADD", 0, "earlier"),
        ("layout", "permutation", "TRANSPOSE", 1, "inverted"),
        ("attribute", "begin", "SLICE", 1, "dropped earlier"),
        ("padding", "pads", "PAD PADV2", 1, "sides_exchanged"),
        ("padding", "pad_code", "PADV2", 2, "dropped"),
        ("axis", "axes", "MEAN", 1, "less"),
        ("axis", "size", "RESIZE_BILINEAR RESIZE_NEAREST_NEIGHBOR", 1, "reversed"),
        ("per_channel", "slopes", "PRELU", 1, "reversed"),
    )
    yield from blobs.shared(form, ["CONV_2D"])
    yield blobs.unstable("aten.abs.default/operator/", _dated)


def _dated(blob: bytes, number: int) -> bytes:
    return tflite.write(replace(tflite.read(blob), description=f"build {number}"))


# ------------------------------------------------------------------------------------ kernels


def _ending(finish: kernels.Finish) -> Patch:
    """Kernels of sums that end in another rescale."""

    def stage(parameters: Sequence[tuple[int, int]], y: Affine, limits: output.Bounds | None = None) -> Kernel:
        low, high = output.bounds(y, limits)
        ratio = torch.tensor([multiplier * 2.0 ** (shift - 31) for multiplier, shift in parameters]).double()
        right = double_rounder(parameters)
        return lambda acc: finish(kernels.Rescale(acc.long(), ratio, right(acc), y.zero_point, low, high)).char()

    modules = (conv, elementwise, matmul, pool)
    return lambda: together(*(patch.object(module, "double_round_stage", stage) for module in modules))


SCHEMES = {
    "": ("aten.convolution.default/operator/",),
    "ties": ("aten.mean.dim/operator/", "aten.add.Tensor/operator/"),
}
CHANGES: dict[str, Any] = {
    "mirrored": RULES,
    "one_more": ("AVERAGE_POOL_2D", "FULLY_CONNECTED", "RESIZE_BILINEAR", "SOFTMAX"),
    "positive": ("MAX_POOL_2D",),
    "constant": ("LOGISTIC",),
    "overwriting": ("ABS", "LEAKY_RELU"),
    **dict.fromkeys(("table_shifted", "table_unsigned", "table_clipped"), ("LOGISTIC", "TANH", "LEAKY_RELU")),
}


def _kernels(form: blobs.Format) -> Iterator[Made]:
    yield from kernels.of_schemes(_ending, SCHEMES)
    yield from kernels.of_kernels(RULES, form.rows, CHANGES)
    yield from kernels.of_functions(RULES, form.rows, "AVERAGE_POOL_2D MAX_POOL_2D")


# ------------------------------------------------------------------------------------ the lists


def catalogue(right: Backend) -> tuple[Fault, ...]:
    """All faults of Neutron."""
    return _catalogue()


@cache
def _catalogue() -> tuple[Fault, ...]:
    form, made = _form(FIRST), _rules()
    return (
        *listed("partitioner", backend, made),
        *listed("compiler", backend, _blobs(form)),
        *listed("device", backend, _kernels(form)),
    )


def catalogue_1_4(right: Backend) -> tuple[Fault, ...]:
    """The faults of what release 1.4 changes."""
    return _catalogue_1_4()


@cache
def _catalogue_1_4() -> tuple[Fault, ...]:
    rows = _form("1.4").rows
    older = (
        "release",
        "of_1_3",
        ("aten.add.Tensor/broadcast/at_limit",),
        lambda right: replace(right, partitioner=NeutronPartitioner),
    )
    groups = ("MAXIMUM MINIMUM", "REDUCE_MAX REDUCE_MIN", "SUM MEAN")
    return (
        *listed("partitioner", backend_1_4, (older, *_dropped("1.4"))),
        *listed("device", backend_1_4, kernels.of_functions(RULES, rows, *groups)),
        *listed("device", backend_1_4, kernels.of_kernels(RULES, rows, {"table_shifted": ("EXP", "LOG")})),
    )
