"""What a user may say to the Neutron partitioner, and what it makes of it."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from partitioners.neutron import NeutronPartitioner

PRELU = torch.ops.aten.prelu


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"compile_spec": "imxrt700"}, "compile_spec is 'imxrt700', expected a list of CompileSpec objects"),
        ({"compile_spec": [("a", "b")]}, r"compile_spec\[0\] is \('a', 'b'\), expected a CompileSpec"),
        ({"neutron_target_spec": "imxrt700"}, "neutron_target_spec is 'imxrt700', expected NeutronTargetSpec or None"),
        (
            {"custom_delegation_options": {"force_delegate_cat": True}},
            "custom_delegation_options is {'force_delegate_cat': True}, expected CustomDelegationOptions or None",
        ),
        ({"post_quantization_state_dict": 3}, "post_quantization_state_dict is 3, expected Mapping or None"),
        ({"preserve_ops": "aten.prelu.default"}, "preserve_ops is 'aten.prelu.default', expected a list of operators"),
        ({"preserve_ops": PRELU.default}, r"preserve_ops is <.*aten.prelu.*>, expected a list of operators"),
        ({"preserve_ops": ["aten.prelu.default"]}, r"preserve_ops\[0\] is 'aten.prelu.default', expected an operator"),
        ({"preserve_ops": [PRELU.default, PRELU]}, r"preserve_ops\[1\] is .*, expected an operator with its overload"),
        ({"check_op_support": 3}, "check_op_support is 3, expected a function of a node or None"),
    ],
)
def test_wrong_arguments(options: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        NeutronPartitioner(**options)
