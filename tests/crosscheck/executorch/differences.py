"""Where our XnnpackPartitioner's tags are not those of ExecuTorch 1.5.1; docs/decisions.md says the same."""

from __future__ import annotations

import torch

from tests.crosscheck.executorch.agreement import (
    CONVOLUTION,
    LINEAR,
    Difference,
    all_of,
    has_per_tensor_weight,
    has_weight_of_rank,
    is_bias_of_convolution,
    is_dynamic,
    named,
    of_dtype,
    on_unsigned_codes,
    quantises_other_reals,
)

PRODUCT = named(CONVOLUTION, LINEAR)

REFUSED: tuple[Difference, ...] = (
    Difference(
        "max_rank",
        "XNNPACK has tensors of up to 6 dimensions; what 1.5.1 tags beyond that does not load.",
        "aten.abs.default/fp32/max_rank/outside/rank_7",
    ),
    Difference(
        "rank",
        "Pools of images without a batch end 1.5.1's lowering with an error; prelu needs the channels of an image.",
        "aten.avg_pool2d.default/fp32/rank/outside/rank_3",
    ),
    Difference(
        "quantized",
        "1.5.1 takes layers whose weights alone are quantized, and gives other numbers or none (weights-alone).",
        "aten.linear.default/static_int8_per_channel/quantized/outside/weights_alone",
        named("aten.addmm.default", "aten.mm.default"),
    ),
    Difference(
        "same_qparams",
        "XNNPACK moves codes and does not rescale them; with different parameters the program of 1.5.1 does not load.",
        "aten.cat.default/static_int8/same_qparams/outside/scale_doubled",
    ),
    Difference(
        "add_scale_ratio",
        "The kernel of add and sub shifts by what the ratio of the scales says; beyond its limits it returns garbage.",
        "aten.add.Tensor/static_int8/add_scale_ratio/outside/256",
    ),
    Difference(
        "dtype",
        "1.5.1 takes an operator between uint8 conversions, as their results are floats; the runtime has int8 only.",
        "aten.add.Tensor/static_int8/dtype/outside/uint8",
        holds=on_unsigned_codes,
    ),
    Difference(
        "dtype",
        "1.5.1 quantizes activations of any type at run time; XNNPACK has kernels for float32 only.",
        "aten.linear.default/dynamic_int4/dtype/outside/bfloat16",
        quantises_other_reals,
    ),
    Difference(
        "divisor_override",
        "With padding the kernel divides by the number of real elements, whatever the divisor says.",
        "aten.avg_pool2d.default/fp32/divisor_override/outside/at_once_12",
    ),
    Difference(
        "requant_scale",
        "input scale * weight scale / output scale of 256 or more does not load.",
        "aten.linear.default/static_int8/requant_scale/outside/twice",
    ),
    Difference(
        "weight_axis",
        "Scales along another axis than the outputs end 1.5.1's lowering with an error, or are taken for those.",
        "aten.linear.default/dynamic_int8/weight_axis/outside/inputs",
    ),
    Difference(
        "weight_zero_point",
        "Weights are symmetric in XNNPACK; another zero point does not load, or is left out without a word.",
        "aten.linear.default/static_int8/weight_zero_point/outside/1",
    ),
    Difference(
        "group_size",
        "Groups that are no multiple of 32, or do not divide the inputs, end 1.5.1's lowering with an error.",
        "aten.linear.default/dynamic_int4/group_size/outside/16_of_64",
    ),
    Difference(
        "group_codes",
        "XNNPACK has no kernel for groupwise weights with activations that are quantized ahead of time.",
        81,
    ),
    Difference(
        "scalar_qparams",
        "Scales that are not positive and normal end 1.5.1's lowering with an error.",
        "quantized_decomposed.quantize_per_tensor.default/fp32/scalar_qparams/outside/scale_subnormal",
    ),
    Difference(
        "code_range",
        "The kernel saturates at -128 and 127, whatever the range in the program says.",
        "quantized_decomposed.quantize_per_tensor.default/fp32/code_range/outside/minus_127_127",
    ),
    Difference(
        "approximate",
        "The kernel computes the exact form; the tanh form differs from it by up to 3.4e-4.",
        "aten.gelu.default/fp32/approximate/outside/tanh",
    ),
    Difference(
        "exact_scale",
        "The kernel knows sizes and not factors; torch uses the factors, and rounds the sizes.",
        "aten.upsample_bilinear2d.vec/fp32/exact_scale/outside/1.5_of_5_vertically",
    ),
    Difference(
        "open_sizes",
        "A convolution over one dimension is reshaped to two in the delegate, which can keep one dynamic size only.",
        "aten.conv1d.default/fp32/open_sizes/outside/open_axis_0_and_2",
    ),
    Difference(
        "cycle",
        "1.5.1 can tag delegates that form a cycle, alone or with an operator between them; its lowering fails.",
        407,
    ),
    Difference(
        "private_operands",
        "1.5.1 can tag a run-time quantization that an operator outside uses; the rest of it then has no kernel.",
        841,
    ),
    Difference(
        "no_result",
        "1.5.1 can tag a delegate that nothing reads; it has no output, and does not load.",
        120,
    ),
)
"""What 1.5.1 delegates and we do not, by the code of our rejection."""

ACCEPTED: tuple[Difference, ...] = (
    Difference(
        "elu",
        "In the document; 1.5.1 has a config for it that is not among its default ones.",
        "aten.elu.default/fp32/operator/accept/baseline",
        named("aten.elu.default"),
    ),
    Difference(
        "gelu in float16",
        "In the document; 1.5.1's config refuses it, and its runtime computes it.",
        "aten.gelu.default/fp16/operator/accept/baseline",
        all_of(named("aten.gelu.default"), of_dtype(torch.float16)),
    ),
    Difference(
        "avg_pool2d with STATIC_QUANT",
        "The document has static int8; 1.5.1's config has FP32 only, so that config_precisions leaves it out.",
        "aten.avg_pool2d.default/static_int8/precision/at_limit/static_quant",
        named("aten.avg_pool2d.default"),
    ),
    Difference(
        "conv1d with run-time quantization",
        "In the document; 1.5.1 wants two spatial dimensions, and a window of height 1 is one of these.",
        "aten.conv1d.default/dynamic_int8/operator/accept/baseline",
        all_of(named(CONVOLUTION), has_weight_of_rank(3), is_dynamic),
    ),
    Difference(
        "per-tensor weights with run-time quantization",
        "In the document; 1.5.1 wants per-channel weights, and these are per-channel weights with equal scales.",
        "aten.linear.default/dynamic_int8/operator/accept/per_tensor_weights",
        all_of(PRODUCT, has_per_tensor_weight, is_dynamic),
    ),
    Difference(
        "exponent 2.0",
        'The document says "power=2 only"; 1.5.1 wants the integer.',
        "aten.pow.Tensor_Scalar/fp32/exponent/at_limit/2.0",
        named("aten.pow.Tensor_Scalar"),
    ),
    Difference(
        "bias of a convolution with force_non_static_weights_for_f32_linear",
        "1.5.1 leaves the bias of convolutions outside, too; such a delegate does not load.",
        1159,
        is_bias_of_convolution,
    ),
)
"""What we delegate and 1.5.1 does not."""
