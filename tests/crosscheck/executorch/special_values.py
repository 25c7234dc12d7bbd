"""Special values that XNNPACK's kernels on x86 with AVX-512 do not compute as IEEE 754 and torch's documents say.

By row and precision, the names of the cases in which the real runtime differs from the simulated device, which is
right. NaN gives way to another operand of a maximum, and to a limit where a kernel clamps: those for sums in
float16, and for averages, clamp to -inf. Roots begin with a processor's estimate, which is 0 or infinite at the ends;
the logarithm of infinity, in float16, is that of the largest number, and of the largest number, in float32, infinite.
"""

from __future__ import annotations

from collections.abc import Mapping

from tests.crosscheck.executorch import half_arithmetic, narrow

NAN, INFINITIES, ZEROS = "nan", "infinities", "zeros_and_subnormals"
CONSTANTS = ("constants_nan", "constants_infinities")

DIFFERENT: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("aten.avg_pool2d.default", "fp32"): (NAN, INFINITIES),
    ("aten.avg_pool2d.default", "fp16"): (NAN, INFINITIES),
    ("aten.bmm.default", "fp16"): (NAN, INFINITIES),
    ("aten.clamp.default", "fp16"): (NAN,),
    ("aten.conv1d.default", "fp16"): (NAN, INFINITIES, *CONSTANTS),
    ("aten.conv2d.default", "fp16"): (NAN, INFINITIES, *CONSTANTS),
    ("aten.exp.default", "fp32"): (NAN,),
    ("aten.hardtanh.default", "fp16"): (NAN,),
    ("aten.linear.default", "fp16"): (NAN, INFINITIES, *CONSTANTS),
    ("aten.log.default", "fp32"): (INFINITIES,),
    ("aten.log.default", "fp16"): (NAN, INFINITIES),
    ("aten.max_pool2d.default", "fp32"): (NAN,),
    ("aten.max_pool2d.default", "fp16"): (NAN,),
    ("aten.maximum.default", "fp32"): (NAN,),
    ("aten.maximum.default", "fp16"): (NAN,),
    ("aten.minimum.default", "fp32"): (NAN,),
    ("aten.minimum.default", "fp16"): (NAN,),
    ("aten.relu.default", "fp16"): (NAN,),
    ("aten.rsqrt.default", "fp32"): (NAN, INFINITIES, ZEROS),
    ("aten.sqrt.default", "fp32"): (NAN, INFINITIES),
    ("aten.sqrt.default", "fp16"): (NAN, INFINITIES, ZEROS),
}

NATIVE: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("aten.bmm.default", "fp16"): ("../context/behind_linear",),
    ("aten.conv1d.default", "fp16"): (),
    ("aten.conv2d.default", "fp16"): (),
    ("aten.linear.default", "fp16"): (),
    ("aten.log.default", "fp16"): (NAN, INFINITIES, "large", ZEROS),
}
"""The same where a processor computes in float16: sums do not clamp, and one of +-300 * +-300 is infinite before it
cancels; the logarithm of what float16 holds for 60,000 and of subnormal numbers is that of a limit."""

NARROW: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("aten.leaky_relu.default", "fp32"): (ZEROS,),
    ("aten.log.default", "fp32"): (NAN, INFINITIES),
}
"""What differs on processors without AVX-512, in place of the above."""


def different(row: str) -> set[str]:
    """The ids of a row's cases that differ."""
    found = {**DIFFERENT, **(NATIVE if half_arithmetic.NATIVE else {}), **(NARROW if narrow.NARROW else {})}
    return {
        f"{name}/{precision}/operator/value/{variant}".replace("/value/../", "/")
        for (name, precision), variants in found.items()
        for variant in variants
        if name == row
    }
