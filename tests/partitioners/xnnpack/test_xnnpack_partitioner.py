"""The XNNPACK partitioner as a whole: its arguments, groups, partitions, tags, and the reasons that it gives."""

from __future__ import annotations

from typing import Any

import pytest
from xnnpack_graphs import OTHER, WEIGHT, Q, coded, graph, partitioned, step
from xnnpack_partitioned import AT_RUN_TIME, CHAIN, DYNAMIC, FP32, LAYERS, STATIC, taken

from npu_assay.conformance.programs.graph import Graph
from npu_assay.partitioners.xnnpack import (
    ConfigPrecisionType,
    XnnpackFloatingPointPartitioner,
    XnnpackPartitioner,
    backend,
)
from npu_assay.partitioners.xnnpack import configs as configurations
from npu_assay.partitioners.xnnpack.config import PartitionerConfig
from npu_assay.partitioners.xnnpack.configs import ALL_CONFIGS, AbsConfig, LinearConfig, ReLUConfig
from npu_assay.partitioners.xnnpack.partitioner import OPTIONS, by_target

SUM = graph([coded("x", 2, 3)], [step("sum", "add.Tensor", "x", "x", quant=OTHER)])
PRODUCT = graph(
    [coded("x", 2, 4), coded("w", 3, 4, quant=WEIGHT, constant=True)],
    [step("product", "linear", "x", "w", quant=Q)],
)


# ------------------------------------------------------------------------------------------------ arguments


def test_defaults() -> None:
    partitioner = XnnpackPartitioner()
    assert (partitioner.delegation_spec.backend_id, partitioner.delegation_spec.compile_specs) == ("XnnpackBackend", [])
    assert {type(config) for config in partitioner.configs.values()} == set(ALL_CONFIGS)
    assert partitioner.rejections == []
    assert vars(partitioner.options) == {
        "config_precisions": (),
        "per_op_mode": False,
        "verbose": False,
        "force_non_static_weights_for_f32_linear": False,
        "enable_bf16": False,
    }


@pytest.mark.parametrize(
    ("configs", "expected"),
    [
        ([ReLUConfig], [False, True]),
        ((AbsConfig,), [True, False]),
        ([ReLUConfig, AbsConfig], [True, True]),
        ([LinearConfig], [False, False]),
        ([], [True, True]),
        (None, [True, True]),
    ],
)
def test_configs_select_operators(configs: Any, expected: list[bool]) -> None:
    assert list(taken(CHAIN, configs=configs).values()) == expected


def test_what_is_not_selected_has_a_reason() -> None:
    (reason,) = partitioned(CHAIN, configs=[ReLUConfig]).rejections
    assert (reason.node, reason.target, reason.code) == ("aten_abs_default", "aten.abs.default", "configs")
    assert (reason.found, reason.sentence) == (
        "AbsConfig is not selected",
        "the operator's config must be one of configs",
    )


def test_every_config_is_one_class_of_its_own_operator() -> None:
    assert len(by_target(ALL_CONFIGS)) == len(ALL_CONFIGS) == len({config.target for config in ALL_CONFIGS})
    for config in ALL_CONFIGS:
        assert getattr(configurations, config.__name__) is config
        assert config.precisions and (config.__doc__ or "").startswith(config.target)
        (alone,) = XnnpackPartitioner(configs=[config]).configs.values()
        assert isinstance(alone, config)


class _OtherAbs(AbsConfig):  # type: ignore[misc, valid-type]  # made by a call
    """Another config for the same operator."""


@pytest.mark.parametrize(
    ("configs", "error", "message"),
    [
        ([AbsConfig, _OtherAbs], ValueError, "AbsConfig and _OtherAbs are both for aten.abs.default, expected one"),
        ([AbsConfig, AbsConfig], ValueError, "AbsConfig and AbsConfig are both for aten.abs.default"),
        ([AbsConfig()], TypeError, "expected classes from npu_assay.partitioners.xnnpack.configs"),
        (["AbsConfig"], TypeError, "configs has 'AbsConfig', expected classes"),
        ("AbsConfig", TypeError, "configs is 'AbsConfig', expected a list of classes"),
        (AbsConfig, TypeError, "configs is <class .*AbsConfig'>, expected a list of classes"),
        ([int], TypeError, "configs has <class 'int'>"),
        (3, TypeError, "configs is 3, expected a list of classes"),
        (0, TypeError, "configs is 0, expected a list of classes"),
        ([PartitionerConfig], TypeError, "configs has <class .*PartitionerConfig'>, expected classes"),
    ],
)
def test_other_configs_are_errors(configs: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        XnnpackPartitioner(configs=configs)


# The released filter compares what a config supports, not what the graph has: see docs/decisions.md.
@pytest.mark.parametrize(
    ("model", "expected"),
    [
        (CHAIN, {FP32: [True, True], STATIC: [False, True], DYNAMIC: [False, False]}),
        (
            LAYERS,
            {FP32: [True] * 4, STATIC: [True, False, True, True], DYNAMIC: [True, False, True, True]},
        ),  # relu goes along
        (SUM, {FP32: [True], STATIC: [True], DYNAMIC: [False]}),
        (PRODUCT, {STATIC: [True], DYNAMIC: [True]}),
        (AT_RUN_TIME, {STATIC: [True], DYNAMIC: [True]}),
    ],
    ids=["chain", "layers", "sum", "product", "at_run_time"],
)
def test_config_precisions(model: Graph, expected: dict[ConfigPrecisionType, list[bool]]) -> None:
    for precision, verdicts in expected.items():
        for asked in (precision, [precision], (precision,), iter([precision])):
            assert list(taken(model, config_precisions=asked).values()) == verdicts, precision
    for every in (None, [], list(ConfigPrecisionType)):
        assert all(taken(model, config_precisions=every).values())


def test_codes_stay_outside_when_only_numbers_are_asked_for() -> None:
    whole, alone = (partitioned(SUM, config_precisions=p).nodes for p in (STATIC, FP32))
    assert set(alone) == {"aten_add_tensor"} < set(whole)


def test_a_precision_that_a_config_does_not_support_is_named() -> None:
    (reason,) = partitioned(CHAIN, config_precisions=STATIC).rejections
    assert (reason.code, reason.found) == ("precision", "AbsConfig supports FP32")
    assert reason.sentence == "config_precisions must name a precision that the operator's config supports"


@pytest.mark.parametrize("asked", ["FP32", ["FP32"], 1, [1, 2], object(), [None], b"FP32"])
def test_other_precisions_are_one_clear_error(asked: Any) -> None:
    expected = (
        "expected one or more of ConfigPrecisionType.FP32, ConfigPrecisionType.STATIC_QUANT, "
        "ConfigPrecisionType.DYNAMIC_QUANT"
    )
    with pytest.raises(TypeError, match=f"^config_precisions has .*, {expected}$") as caught:
        XnnpackPartitioner(config_precisions=asked)
    if isinstance(asked, str):
        assert str(caught.value).startswith("config_precisions has 'FP32',")


def test_plain_data_names_precisions_and_configs() -> None:
    """What a case's options and the command line give."""
    for precisions in ("FP32", ("FP32",), ["FP32", "STATIC_QUANT"]):
        partitioner = backend.partitioner(config_precisions=precisions, configs=("ReLUConfig",))
        assert isinstance(partitioner, XnnpackPartitioner)
        assert partitioner.options.config_precisions[0] is FP32
        assert list(partitioner.configs) == ["aten.relu.default"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"config_precisions": "FP31"},
            "config_precisions has 'FP31': did you mean 'FP32'. expected names among FP",
        ),
        ({"config_precisions": ("FP32", "INT8")}, "config_precisions has 'INT8': .*STATIC_QUANT, DYNAMIC_QUANT"),
        ({"configs": ("LeakyRelUConfig",)}, "configs has 'LeakyRelUConfig': did you mean 'LeakyReLUConfig'."),
        ({"configs": "AbsConfigs"}, "configs has 'AbsConfigs': did you mean 'AbsConfig'."),
    ],
)
def test_other_names_are_errors(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        backend.partitioner(**options)


@pytest.mark.parametrize(
    ("given", "nearest"),
    [
        ("config_precision", "config_precisions"),
        ("per_op", "per_op_mode"),
        ("config", "configs"),
        ("verbos", "verbose"),
        ("enable_bfloat16", "enable_bf16"),
        ("force_non_static_weights", "force_non_static_weights_for_f32_linear"),
    ],
)
@pytest.mark.parametrize("owner", [XnnpackPartitioner, XnnpackFloatingPointPartitioner])
def test_an_unknown_argument_names_the_nearest(owner: type[XnnpackPartitioner], given: str, nearest: str) -> None:
    unknown: dict[str, Any] = {given: True}
    with pytest.raises(TypeError) as caught:
        owner(**unknown)
    assert str(caught.value) == (
        f"{owner.__name__} has no option {given!r}: did you mean {nearest!r}? expected one of {', '.join(OPTIONS)}"
    )


def test_an_unknown_argument_like_no_other_names_none() -> None:
    unknown: dict[str, Any] = {"zzz": 1}
    with pytest.raises(TypeError, match="has no option 'zzz': expected one of configs, config_precisions"):
        XnnpackPartitioner(**unknown)


@pytest.mark.parametrize("option", OPTIONS[2:])
def test_switches_are_true_or_false(option: str) -> None:
    for found in (1, "yes", None):
        with pytest.raises(TypeError, match=rf"{option} is {found!r}, expected True or False"):
            XnnpackPartitioner(**{option: found})  # type: ignore[arg-type]  # the error is what is tested
