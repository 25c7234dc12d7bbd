"""Wrong arguments of the Ethos-U partitioner are refused when they are given."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from ethosu_graphs import U55
from torch.fx.passes.operator_support import OperatorSupport

from npu_assay.partitioners.ethosu import EthosUCompileSpec, EthosUPartitioner

CHECK = OperatorSupport()


@pytest.mark.parametrize(
    ("checks", "message"),
    [
        (3, "additional_checks is 3, expected a list"),
        (0, "additional_checks is 0, expected a list"),
        (CHECK, "additional_checks is <.*OperatorSupport.*>, expected a list"),
        ([CHECK, 3], r"additional_checks\[1\] is 3, expected an OperatorSupportBase object"),
        (
            [OperatorSupport],
            r"additional_checks\[0\] is <class .*OperatorSupport'>, expected an OperatorSupportBase object",
        ),
        ([lambda node: True], r"additional_checks\[0\] is <function"),
    ],
)
def test_wrong_checks(checks: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        EthosUPartitioner(EthosUCompileSpec(U55), checks)


@pytest.mark.parametrize("op", ["aten.sqrt.default", torch.ops.aten.sqrt, None])
def test_what_is_registered_must_be_an_operator(op: Any) -> None:
    with pytest.raises(TypeError, match=r"expected an operator with its overload, e.g. torch.ops.aten.abs.default"):
        EthosUPartitioner(EthosUCompileSpec(U55)).register_custom_partition_op(op)
