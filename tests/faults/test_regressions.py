"""Faults that backends shipped, by the upstream issue that reported each: all of them are noticed here.

A fault of a catalogue stands for the issue where there is one that breaks the same thing in the same way; the others
are made below. What says nothing of partitioners, compilers or devices like these is listed with the reason.
"""

from __future__ import annotations

from functools import cache
from unittest.mock import patch

import pytest
from torch import fx

from benchmarks.people import Holds, checking
from npu_assay.conformance.cases import cases_for
from npu_assay.conformance.mutation.trial import trial
from npu_assay.conformance.programs.graph import Case
from npu_assay.conformance.run.one_case import run_case
from npu_assay.conformance.table import Table, load_table
from npu_assay.faults import Fault, compiling_with, partitioning_with, with_device
from npu_assay.faults.ethosu import catalogue as of_ethosu
from npu_assay.faults.kernels import operator
from npu_assay.faults.neutron import catalogue as of_neutron
from npu_assay.faults.xnnpack import catalogue as of_xnnpack
from npu_assay.partitioners.common.machine import Kernel
from npu_assay.partitioners.ethosu import ethos_u55
from npu_assay.partitioners.exir import Backend
from npu_assay.partitioners.exir.nodes import argument
from npu_assay.partitioners.neutron import backend as neutron
from npu_assay.partitioners.neutron.device.operators import RULES as DEVICE
from npu_assay.partitioners.neutron.device.site import Site
from npu_assay.partitioners.neutron.operators import LOWERINGS
from npu_assay.partitioners.neutron.support.rules import RULES
from npu_assay.partitioners.xnnpack import backend as xnnpack

AVERAGE, CONV, POOL = "aten.avg_pool2d.default", "aten.convolution.default", "aten.max_pool2d_with_indices.default"
RIGHT = {"neutron": neutron, "xnnpack": xnnpack, "ethos-u55": ethos_u55}


# ------------------------------------------------------------------------------------ made here


def _mirrored_single_channel(site: Site, kernel: Kernel) -> Kernel:
    """Images of one channel are read in another order."""
    return kernel if site.x.shape[-1] != 1 else lambda codes: kernel(codes.flip(2))


def strides(node: fx.Node, position: int) -> tuple[int, ...]:
    return tuple(argument(node, position, "stride", ()))


def instead(target: str, code: str, holds: Holds) -> Backend:
    """A partitioner with another question for one rule of one operator."""
    return partitioning_with(neutron, lambda: patch.dict(RULES, {target: checking(RULES[target], code, holds)}))


def _without_lowering() -> Backend:
    others = {name: lower for name, lower in LOWERINGS.items() if name != "aten.neg.default"}
    return compiling_with(neutron, lambda: patch.dict(LOWERINGS, others, clear=True))


MADE = {
    # strides are read without looking whether there are any, or two
    "empty_stride": (instead(POOL, "stride_h", lambda node, _: strides(node, 2)[0] < 3), "aten.max_pool2d*/stride_h/"),
    "short_stride": (instead(CONV, "spatial_rank", lambda node, _: strides(node, 3)[1] > 0), f"{CONV}/spatial_rank/"),
    # the default is refused, whatever the padding
    "default_refused": (
        instead(AVERAGE, "count_include_pad", lambda node, _: not argument(node, 5, "count_include_pad", True)),
        f"{AVERAGE}/count_include_pad/",
    ),
    "single_channel": (
        with_device(neutron, operator(DEVICE, _mirrored_single_channel, "CONV_2D", "DEPTHWISE_CONV_2D", "ABS")),
        f"{CONV}/operator/",
    ),
    "no_lowering": (_without_lowering(), "aten.neg.default/operator/"),
}

# ------------------------------------------------------------------------------------ issue -> fault

APPLIES = {
    "pytorch/executorch#3567 max_pool2d with ceil_mode": ("neutron", f"ceil_mode_of_{POOL}"),
    "pytorch/executorch#7354 max_pool2d, long strides": ("xnnpack", "stride_within_kernel_of_aten.max_pool2d.default"),
    "pytorch/executorch#21488 max_pool2d, empty stride": ("neutron", "empty_stride"),
    "pytorch/executorch#10965 convolution, stride of one number": ("neutron", "short_stride"),
    "pytorch/executorch#8462 transposed convolution, output_padding": ("ethos-u55", "output_padding_of_all"),
    "pytorch/executorch#11730 transposed convolution, groups, scales per channel": (
        "xnnpack",
        f"transposed_groups_of_{CONV}",
    ),
    "pytorch/executorch#20558 convolution, even kernel, padding 'same'": ("ethos-u55", "wrong_pad"),
    "pytorch/executorch#20517 convolution 'same' and relu": ("neutron", "pads_sides_exchanged"),
    "pytorch/executorch#21829 slice of a convolution, other scales": (
        "neutron",
        "same_qparams_of_aten.slice_copy.Tensor",
    ),
    "pytorch/executorch#19836 transpose, other scales": ("xnnpack", "same_qparams_of_aten.permute_copy.default"),
    "pytorch/executorch#10961 relu of plain int8": ("xnnpack", "dtype_of_aten.relu.default"),
    "pytorch/executorch#10960 add of int8 and bool": ("xnnpack", "dtype_of_aten.add.Tensor"),
    "pytorch/executorch#11581 int8 outside quantization": ("xnnpack", "dtype_of_aten.abs.default"),
    "pytorch/executorch#21862 avg_pool2d, count_include_pad by default": ("neutron", "default_refused"),
    "pytorch/executorch#19206 mean over [2, 3] and [-2, -1]": ("neutron", "wrong_sign_of_dim"),
    "pytorch/executorch#18616 divisor_override ignored": ("xnnpack", "divisor_override_of_aten.avg_pool2d.default"),
    "pytorch/executorch#18873 table of sigmoid shifted": ("ethos-u55", "table_rolled"),
    "pytorch/executorch#20668 table of int16 gives zeros": ("ethos-u55", "TABLE_constant"),
    "pytorch/executorch#17668 transposed convolution, strides": ("ethos-u55", "transposed_stride_of_all"),
    "pytorch/executorch#16779 products of sizes at 65536": (
        "ethos-u55",
        "MAX_SIZE_less_in_transposition_of_aten.permute_copy.default",
    ),
    "pytorch/executorch#8209 pool, kernel 257": (
        "ethos-u55",
        "MAX_KERNEL_HEIGHT_more_in_kernel_height_of_aten._adaptive_avg_pool2d.default",
    ),
    "pytorch/executorch#8209 pool, stride 4": ("ethos-u55", "MAX_STRIDE_more_in_stride_of_aten.avg_pool2d.default"),
    "pytorch/executorch#17094 max_pool2d, dilation": ("neutron", "dilation_of_aten.max_pool2d_with_indices.default"),
    "pytorch/executorch#17842 transposed convolution, axis of scales": ("ethos-u55", "transposed_groups_of_all"),
    "pytorch/executorch#19364 type at the delegate's border": ("ethos-u55", "io_dtype_of_all"),
    "pytorch/executorch#21910 sums of 48 bits narrowed": ("ethos-u55", "CONV2D_of_32_bits"),
    "pytorch/executorch#18491 relu behind a convolution, any zero point": ("neutron", "activation_ignored"),
    "pytorch/executorch#13726 int64 at the border": ("ethos-u55", "no_int64_of_all"),
    "pytorch/executorch#16901 a partition that computes nothing": ("neutron", "not_alone_of_aten.view_copy.default"),
    "pytorch/executorch#18155 relu alone": ("neutron", "alone_channels_multiple_of_of_aten.relu.default"),
    "pytorch/executorch#19275 clamp alone, unquantized": ("neutron", "quantized_of_aten.clamp.default"),
    "pytorch/executorch#19550 add with broadcasting": ("neutron", "same_shape_of_aten.add.Tensor"),
    "pytorch/executorch#22435 one channel": ("neutron", "single_channel"),
    "pytorch/executorch#14580 cat, multiple of channels": ("neutron", "channels_multiple_of_of_aten.cat.default"),
    "pytorch/executorch#20804 transposed convolution, one output channel": ("neutron", f"transposed_of_{CONV}"),
    "pytorch/executorch#13844 shared biases": ("neutron", "constants_shared"),
    "pytorch/executorch#21607 operator without a lowering": ("neutron", "no_lowering"),
    "pytorch/executorch#11697 dilation ignored": ("neutron", "wrong_dilation_h_factor"),
    "pytorch/executorch#19676 bias dropped": ("neutron", "bias_dropped"),
    "pytorch/executorch#903 depthwise convolution, scales per channel": ("neutron", "scales_first_for_all"),
    "google/XNNPACK#11036 rank past the limit": ("xnnpack", "max_rank_of_aten.abs.default"),
    "google-ai-edge/LiteRT#7441 single and double rounding": ("neutron", "half_up"),
    "tensorflow/tflite-micro#3252 ties": ("neutron", "half_even"),
    "ARM-software/CMSIS-NN#214 rounding of rescales": ("ethos-u55", "half_away"),
    "pytorch/pytorch#33466 scale of a product beyond its limit": ("xnnpack", "requant_scale_of_aten.linear.default"),
    "microsoft/onnxruntime#27375 average pool, padding": ("ethos-u55", "padding_counted"),
    "onnxruntime/onnxruntime-qnn#381 mean of another rank": ("neutron", "rank_of_aten.mean.dim"),
    "pytorch/executorch#7131 upsample to an open size": (
        "xnnpack",
        "static_output_size_of_aten.upsample_bilinear2d.vec",
    ),
    "pytorch/executorch#14735 constants in another order": ("neutron", "weights_transposed"),
    "onnxruntime/onnxruntime-qnn#739 one bias for different input scales": ("neutron", f"static_bias_of_{CONV}"),
}
DOES_NOT_APPLY = {
    "pytorch/executorch#8891": "the device refuses to start; none here has a way of its own to quantize per tensor",
    "pytorch/executorch#16864": "an option of Vela, which compiles behind the TOSA graph that is judged here",
    "pytorch/executorch#21423": "how a GPU divides a product among its threads",
    "pytorch/executorch#14053": "how a GPU packs a dimension",
    "pytorch/executorch#22583": "a partition of a selected result alone: partitioners here tag it with its operator",
    "pytorch/executorch#11718": "diagonal and topk are in none of the tables",
    "pytorch/executorch#19152": "a pass of ExecuTorch's own; every row has a case of two consumers",
    "pytorch/executorch#19717": "a test that expected any failure: here xfail is strict, and a case fails by name",
}


@cache
def of(vendor: str) -> tuple[dict[str, Fault], Table, tuple[Case, ...]]:
    make = {"neutron": of_neutron, "xnnpack": of_xnnpack, "ethos-u55": of_ethosu}[vendor]
    made = {name: Fault(name, "device", "shipped", found[0], found[1:]) for name, found in MADE.items()}
    table = load_table(RIGHT[vendor].table)
    return made | {fault.name: fault for fault in make(RIGHT[vendor])}, table, tuple(cases_for(table))


@pytest.mark.parametrize("issue", APPLIES)
def test_what_was_shipped_once_is_noticed(issue: str) -> None:
    vendor, name = APPLIES[issue]
    faults, table, cases = of(vendor)
    outcome = trial(faults[name], table, cases, lambda case: run_case(case, RIGHT[vendor], table), limit=0)
    assert outcome.killed, outcome


def test_no_issue_is_in_both_lists() -> None:
    assert not {issue.split()[0] for issue in APPLIES} & DOES_NOT_APPLY.keys()
    assert all(reason for reason in DOES_NOT_APPLY.values())
