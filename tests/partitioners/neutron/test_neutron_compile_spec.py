"""Compile specs, targets and their errors, as documented."""

from __future__ import annotations

from typing import Any

import pytest

from npu_assay.conformance.table import load_table
from npu_assay.partitioners.neutron.compile_spec import (
    NeutronCompileSpecBuilder,
    generate_neutron_compile_spec,
    spec_flag,
    spec_release,
    spec_value,
)
from npu_assay.partitioners.neutron.options import CustomDelegationOptions
from npu_assay.partitioners.neutron.target import TARGETS, HwVersion, NeutronTarget, NeutronTargetSpec

DIM_ORDER = "dim_order_ops__clone_dim_order_default"


def pairs(**options: Any) -> list[tuple[str, bytes]]:
    """The generated spec as plain pairs."""
    return [(spec.key, spec.value) for spec in generate_neutron_compile_spec("imxrt700", **options)]


def test_defaults_and_order() -> None:
    assert pairs() == [
        ("output_format", b"tflite"),
        ("compile_flags", b""),
        ("target", b"imxrt700"),
        ("operators_not_to_delegate", b""),
        ("use_neutron_for_format_conversion", b"True"),
        ("fetch_constants_to_sram", b"False"),
        ("dump_kernel_selection_code", b"False"),
        ("use_new_flow_neutron_c", b"False"),
    ]


def test_every_field_is_written() -> None:
    found = dict(
        pairs(
            extra_flags="--one --two",
            operators_not_to_delegate=["aten::add", "aten::_softmax"],
            use_neutron_for_format_conversion=False,
            fetch_constants_to_sram=True,
            dump_kernel_selection_code=True,
        )
    )
    assert found["compile_flags"] == b"--one --two"
    assert found["operators_not_to_delegate"] == b"aten_add,aten__softmax"
    assert found["use_neutron_for_format_conversion"] == b"False"
    assert found["fetch_constants_to_sram"] == found["dump_kernel_selection_code"] == b"True"


def test_operators_are_spelled_as_in_the_model_or_as_in_the_table() -> None:
    names = [" aten::abs", "aten.add.Tensor", "aten._softmax.default", "dim_order_ops._clone_dim_order.default", "relu"]
    assert dict(pairs(operators_not_to_delegate=names))["operators_not_to_delegate"] == (
        b"aten_abs,aten_add_tensor,aten__softmax_default,dim_order_ops__clone_dim_order_default,relu"
    )


def test_every_name_of_the_table_can_be_excluded() -> None:
    names = [row.name for row in load_table("neutron@1.3").rows]
    found = dict(pairs(operators_not_to_delegate=names))["operators_not_to_delegate"].decode().split(",")
    others = {"aten.split.default": "aten_split", "aten.dim_order_ops._clone_dim_order.default": DIM_ORDER}
    assert found == [others.get(name, name.replace(".", "_").lower()) for name in names]


def test_a_list_of_flags_is_joined_by_spaces() -> None:
    assert dict(pairs(extra_flags=["--one", "--two"]))["compile_flags"] == b"--one --two"


def test_a_release_is_named_where_it_is_not_the_first() -> None:
    """What 1.3 compiles stays the same to the byte: nothing is named for it."""
    assert "release" not in dict(pairs()) and pairs(release="1.3") == pairs()
    assert pairs(release="1.4") == [*pairs(), ("release", b"1.4")]
    assert spec_release(generate_neutron_compile_spec("imxrt700", release="1.4")) == "1.4"
    assert spec_release(generate_neutron_compile_spec("imxrt700")) == spec_release([]) == "1.3"


def test_builder_and_function_agree() -> None:
    built = NeutronCompileSpecBuilder().neutron_compile_spec("imxrt700", fetch_constants_to_sram=True).build()
    assert built == generate_neutron_compile_spec("imxrt700", fetch_constants_to_sram=True)


def test_system_config_is_accepted() -> None:
    assert generate_neutron_compile_spec("imxrt700", "anything") == generate_neutron_compile_spec("imxrt700")


def test_a_builder_is_used_once() -> None:
    builder = NeutronCompileSpecBuilder().neutron_compile_spec("imxrt700")
    with pytest.raises(AssertionError, match="was called before, expected one call per builder"):
        builder.neutron_compile_spec("imxrt700")


def test_build_needs_options() -> None:
    with pytest.raises(ValueError, match=r"expected neutron_compile_spec\(config"):
        NeutronCompileSpecBuilder().build()


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"extra_flags": 3}, TypeError, "extra_flags is 3, expected"),
        ({"operators_not_to_delegate": "aten::add"}, TypeError, "expected a list of strings"),
        ({"operators_not_to_delegate": [""]}, ValueError, "expected one operator name"),
        ({"operators_not_to_delegate": ["a,b"]}, ValueError, "expected one operator name"),
        ({"operators_not_to_delegate": ["aten.abs"]}, ValueError, "holds 'aten.abs', .* did you mean 'aten_abs'"),
        ({"operators_not_to_delegate": ["aten::ABS"]}, ValueError, "did you mean 'aten_abs'"),
        ({"operators_not_to_delegate": ["add", "aten::sofmax"]}, ValueError, "'aten::sofmax', which is in no operator"),
        ({"operators_not_to_delegate": ["aten::sofmax"]}, ValueError, "nearest are _softmax"),
        ({"operators_not_to_delegate": ["foo"]}, ValueError, "'foo', which is in no operator"),
        ({"operators_not_to_delegate": ["aten::bar"]}, ValueError, "'aten::bar', which is in no operator"),
        ({"operators_not_to_delegate": ["cnvolution"]}, ValueError, "nearest are convolution"),
        ({"fetch_constants_to_sram": 1}, TypeError, "fetch_constants_to_sram is 1, expected True or False"),
        ({"use_neutron_for_format_conversion": "True"}, TypeError, "expected True or False"),
        ({"dump_kernel_selection_code": None}, TypeError, "expected True or False"),
        ({"release": "1.5"}, ValueError, "release: found '1.5', expected one of"),
        ({"release": None}, ValueError, "release: found None, expected one of"),
        ({"use_new_flow_neutron_c": True}, ValueError, "`release` says whose rules hold"),
    ],
)
def test_wrong_values(options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        generate_neutron_compile_spec("imxrt700", **options)


@pytest.mark.parametrize("name", ["imxrt700x", "", None])
def test_unknown_targets(name: Any) -> None:
    with pytest.raises(ValueError, match=rf"found {name!r}, expected the id of a known SoC, one of \['imxrt700'\]"):
        generate_neutron_compile_spec(name)


def test_targets_that_cannot_be_compiled_for() -> None:
    targets = {
        "big": NeutronTarget("big", True, 1, 8, 8, HwVersion.N3),
        "old": NeutronTarget("old", False, 1, 8, 8, HwVersion.N1),
    }
    with pytest.raises(ValueError, match="found 'big', which has a Neutron-S subsystem, expected an MCU"):
        NeutronTargetSpec("big", targets)
    with pytest.raises(ValueError, match="found 'old', whose NPU is of generation N1, expected generation N3"):
        NeutronTargetSpec("old", targets)


def test_imxrt700() -> None:
    spec = NeutronTargetSpec("imxrt700")
    assert (spec.get_name(), spec.is_subsystem(), spec.get_num_units()) == ("imxrt700", False, 1)
    assert (spec.get_num_pipes(), spec.get_num_macs(), spec.get_hw_version()) == (8, 8, HwVersion.N3)
    assert list(TARGETS) == ["imxrt700"]


def test_values_are_read_by_key() -> None:
    spec = generate_neutron_compile_spec("imxrt700", use_neutron_for_format_conversion=False)[::-1]
    assert spec_value(spec, "target") == "imxrt700"
    assert spec_value(spec, "missing", "default") == "default"
    assert spec_flag(spec, "use_neutron_for_format_conversion", True) is False
    assert spec_flag(spec, "missing", True) is True
    with pytest.raises(ValueError, match="compile spec target is 'imxrt700', expected 'True' or 'False'"):
        spec_flag(spec, "target")


def test_options_are_booleans() -> None:
    with pytest.raises(TypeError, match=r"CustomDelegationOptions.force_delegate_cat is 1, expected True or False"):
        CustomDelegationOptions(force_delegate_cat=1)  # type: ignore[arg-type]  # the mistake under test
