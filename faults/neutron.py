"""Broken copies of the Neutron backend, each with one fault that a vendor could ship.

`assay mutate neutron` tries them all; `assay certify npu_assay.faults.neutron:multiple_of_4` certifies one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import torch

from npu_assay.faults import Fault, Patch, blobs, kernels, rules, together
from npu_assay.faults.listing import Listing, Made, named, rows
from npu_assay.partitioners.common.int8 import conv, elementwise, matmul, output, pool
from npu_assay.partitioners.common.machine import Kernel
from npu_assay.partitioners.common.rescale import double_rounder
from npu_assay.partitioners.exir.backend import Backend
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

NEWER = "release_1_4_"
"""The beginning of the names of that release's faults in this module."""
KINDS = {
    "implied": (
        "quantized_of_* indices_unused_of_* memory_format_given_of_* static_shape_of_*clone* max_rank_of_*clone*"
        " static_shape_of_aten.view_copy.default max_input_rank_of_aten.view_copy.default"
        " limit_more_in_max_input_rank_of_*"
    ),
    "refused": "TANH_for_LOGISTIC LOGISTIC_for_TANH scales_* constants_shared wrong_sign_of_dims",
    "attribute": "wrong_alpha wrong_beta wrong_adj_? wrong_align_corners wrong_half_pixel_centers wrong_fused_*",
}
"""By kind the faults that are of it, whatever they are derived from."""
LEFT_OUT = {
    "no program breaks the rule: torch has no such operator, or makes no such tensor": (
        "*rank_of_aten.addmm.default *rank_of_aten.mm.default *rank_of_aten.bmm.default"
        " static_shape_of_aten.upsample_nearest2d.vec"
    ),
    "no program breaks the rule: with the same scale in and out, the sum is too large for memory first": (
        "rescale_of_aten.mean.dim"
    ),
    "equal to the right backend: the rules that read it say the same": (
        "max_size_of_turned_sizes same_shape_of_turned_sizes any_dim_multiple_of_of_turned_sizes"
        " channel_and_batch_padding_of_turned_sizes"
    ),
    "equal to the right backend: the device does not look at the field": (
        "wrong_asymmetric_quantize_inputs wrong_keep_num_dims wrong_new_shape wrong_pot_scale_int16"
        " wrong_quantized_bias_type"
    ),
    "equal to the right backend: no multiple lies between": "4096_*_in_max_channels_of_*",
    "a hole: no case pads with an infinity": "wrong_default_of_value",
    "a hole: the case beyond the limit is larger": "65536_more_in_*",
}
"""By reason, the derived faults that are in no list."""

# ------------------------------------------------------------------------------------ rules

# Rows that a pass makes other operators of: their cases are those of the rows.
ROWS = {
    "aten.max_pool2d_with_indices.default": "aten.max_pool",
    "aten.view_copy.default": "aten.",
    "dim_order_ops._clone_dim_order.default": "aten.dim_order_ops._clone_dim_order.default",
}
JUDGES = ((partitioner, "node_rejections"), (partitioner, "stage_rejections"))


def _codes(target: str, release: str) -> list[str]:
    row = operators(release)[target]
    found = [*(rule.code for rule in RULES_OF[release][target]), *(rule.code for rule in row.stage)]
    alone = ["not_alone"] if target in DATA_ONLY or target in NEUTRAL else []
    return ["quantized", "static_shape", *found, *alone, *([] if row.problem is None else ["rescale"])]


def _dropped(release: str) -> Iterator[Made]:
    """One fault for every rule of every operator that the release before does not have as it is."""
    before = {} if release == FIRST else RULES_OF[RELEASES[RELEASES.index(release) - 1]]
    targets = [target for target, found in RULES_OF[release].items() if before.get(target) != found]
    return rules.dropped({target: _codes(target, release) for target in targets}, ROWS, *JUDGES)


def with_macs(macs: int) -> Backend:
    """The backend of an NPU with another number of multiply-accumulate units."""
    targets = {name: replace(target, num_macs=macs) for name, target in TARGETS.items()}

    def make() -> NeutronPartitioner:
        return NeutronPartitioner(generate_neutron_compile_spec("imxrt700"), NeutronTargetSpec("imxrt700", targets))

    passes = tuple(DivideToMultiply(macs) if isinstance(one, DivideToMultiply) else one for one in backend.passes)
    return replace(backend, partitioner=make, passes=passes)


def _rules() -> Iterator[Made]:
    first = RULES_OF[FIRST]
    yield from (
        (kind, f"multiple_of_{macs}", ("aten.mean.dim/channels_multiple_of/",), lambda _, macs=macs: with_macs(macs))
        for kind, macs in (("loosened", 4), ("tightened", 16))
    )
    yield rules.unstable("aten.abs.default/operator/", *JUDGES)
    yield from _dropped(FIRST)
    yield from rules.misnamed({target: _codes(target, FIRST) for target in first}, *JUDGES)
    yield from rules.of_numbers(first, ROWS)
    yield from rules.of_arguments(first, ROWS)
    yield from rules.of_sizes(first, ROWS)


# ------------------------------------------------------------------------------------ blobs

PRODUCTS = "CONV_2D DEPTHWISE_CONV_2D FULLY_CONNECTED"


def _form(release: str) -> blobs.Format:
    tables = {code: tflite_schema.OPTIONS.get(one.options) for code, one in tflite_schema.OPERATORS.items()}
    fields = {code: tuple(table.fields) if table else () for code, table in tables.items()}
    begun = rows(tflite_schema.OPERATORS, RULES_OF[release]) | {"bias_less": "addmm"}
    constants = {"tensors": "data"}
    return blobs.Format(tflite.read, tflite.write, "operators", "code", "options", constants, fields, begun)


def _blobs() -> Iterator[Made]:
    form = _form(FIRST)
    yield from blobs.of_fields(form)
    yield from blobs.of_operators(form, "RELU RELU6", "RELU_0_TO_1 RELU_N1_TO_1", "LOGISTIC TANH")
    yield from blobs.of_operators(form, "AVERAGE_POOL_2D MAX_POOL_2D")
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
        ("sizes", "axes", "MEAN", 1, "less"),
        ("sizes", "size", "RESIZE_BILINEAR RESIZE_NEAREST_NEIGHBOR", 1, "reversed"),
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


SUMS = {
    "": ("aten.convolution.default/operator/",),
    "ties": ("aten.mean.dim/operator/", "aten.add.Tensor/operator/"),
}
CHANGES: dict[str, Any] = {
    "mirrored": RULES,
    "one_more": ("AVERAGE_POOL_2D", "FULLY_CONNECTED", "RESIZE_BILINEAR", "SOFTMAX"),
    "positive": ("MAX_POOL_2D",),
    "constant": ("LOGISTIC",),
    "largest_wraps": ("ABS",),
    "overwriting": ("ABS", "LEAKY_RELU"),
    **dict.fromkeys(("table_shifted", "table_unsigned", "table_clipped"), ("LOGISTIC", "TANH", "LEAKY_RELU")),
}


def _kernels() -> Iterator[Made]:
    begun = _form(FIRST).rows
    yield from kernels.of_schemes(_ending, SUMS)
    yield from kernels.of_kernels(RULES, begun, CHANGES)
    yield from kernels.of_functions(RULES, begun, "AVERAGE_POOL_2D MAX_POOL_2D")


# ------------------------------------------------------------------------------------ the lists


def _rules_of_1_4() -> Iterator[Made]:
    cases = ("aten.add.Tensor/broadcast/at_limit",)
    yield "release", "of_1_3", cases, lambda right: replace(right, partitioner=NeutronPartitioner)
    yield from _dropped("1.4")


def _kernels_of_1_4() -> Iterator[Made]:
    begun = _form("1.4").rows
    yield from kernels.of_functions(RULES, begun, "MAXIMUM MINIMUM", "REDUCE_MAX REDUCE_MIN", "SUM MEAN")
    yield from kernels.of_kernels(RULES, begun, {"table_shifted": ("EXP", "LOG")})


LISTING = Listing(backend, KINDS, LEFT_OUT, partitioner=_rules, compiler=_blobs, device=_kernels)
LISTING_1_4 = Listing(backend_1_4, KINDS, LEFT_OUT, partitioner=_rules_of_1_4, device=_kernels_of_1_4)


def catalogue(right: Backend) -> tuple[Fault, ...]:
    """All faults of Neutron."""
    return LISTING.faults


def catalogue_1_4(right: Backend) -> tuple[Fault, ...]:
    """The faults of what release 1.4 changes."""
    return LISTING_1_4.faults


def __getattr__(name: str) -> Backend:
    """The broken backend of that name; after `release_1_4_` one of that release."""
    listing = LISTING_1_4 if name.startswith(NEWER) else LISTING
    return named(name.removeprefix(NEWER), listing)
