"""What the Ethos-U compile spec says, writes and refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from npu_assay.partitioners.ethosu.compile_spec import (
    DebugMode,
    EthosUCompileSpec,
    PipelineConfig,
    VelaExternalBlockPlacements,
)
from npu_assay.partitioners.ethosu.options import FAMILIES, TARGETS, TosaSpec
from npu_assay.partitioners.exir.backend import CompileSpec


def texts(spec: EthosUCompileSpec) -> dict[str, str]:
    return {one.key: one.value.decode() for one in spec.to_list()}


def test_the_targets_are_those_that_exist() -> None:
    assert list(TARGETS) == [
        *(f"ethos-u55-{count}" for count in (32, 64, 128, 256)),
        *(f"ethos-u65-{count}" for count in (256, 512)),
        *(f"ethos-u85-{count}" for count in (128, 256, 512, 1024, 2048)),
    ]


@pytest.mark.parametrize("target", ["ethos-u55-999", "ethos-u55", "u55", "ethos-u75-128", "foo", ""])
def test_a_target_that_does_not_exist_names_those_that_do(target: str) -> None:
    with pytest.raises(ValueError, match=r"expected one of ethos-u55-32, .*ethos-u85-2048") as error:
        EthosUCompileSpec(target)
    assert repr(target) in str(error.value)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_defaults_are_the_familys(family: object) -> None:
    for target, found in TARGETS.items():
        if found is family:
            flags = texts(EthosUCompileSpec(target))["compile_flags"]
            assert flags == (
                f"--accelerator-config={target} --config=Arm/vela.ini --output-format=raw "
                f"--system-config={found.system_config} --memory-mode={found.memory_mode}"
            )


def test_extra_flags_come_first_and_stay_the_callers() -> None:
    extra = ["--verbose-all"]
    spec = EthosUCompileSpec("ethos-u85-256", "sys", "mem", extra, None)
    assert spec.compiler_flags[0] == "--verbose-all"
    assert spec.compiler_flags[-2:] == ["--system-config=sys", "--memory-mode=mem"]
    assert extra == ["--verbose-all"]


def test_the_list_in_order() -> None:
    assert [one.key for one in EthosUCompileSpec("ethos-u55-128").to_list()] == [
        "tosa_spec",
        "compile_flags",
        "output_format",
        "preserve_io_quantization",
        "target",
    ]
    assert texts(EthosUCompileSpec("ethos-u55-128"))["tosa_spec"] == "TOSA-1.0+INT+int16+int4+u55"
    assert texts(EthosUCompileSpec("ethos-u65-256"))["tosa_spec"] == "TOSA-1.0+INT+int16+int4+u55"
    assert texts(EthosUCompileSpec("ethos-u85-256"))["tosa_spec"] == "TOSA-1.0+INT+int16+int4+cf"


def full() -> EthosUCompileSpec:
    spec = EthosUCompileSpec("Ethos-U55-128", external_block_placements=VelaExternalBlockPlacements("c", None))
    spec.dump_intermediate_artifacts_to("here").dump_debug_info(DebugMode.TOSA)
    spec.get_pass_pipeline_config()
    spec.tosa_dev_mode = True
    with pytest.warns(UserWarning, match="codes"):
        spec.set_preserve_io_quantization(True)
    return spec


@pytest.mark.parametrize("spec", [*map(EthosUCompileSpec, TARGETS), full()], ids=lambda spec: spec.target)
def test_reading_is_the_inverse_of_writing(spec: EthosUCompileSpec) -> None:
    again = EthosUCompileSpec.from_list(spec.to_list())
    assert again == spec and hash(again) == hash(spec)
    assert vars(again).keys() == vars(spec).keys()
    assert again.pipeline_config == spec.pipeline_config or spec.pipeline_config == PipelineConfig()


def test_everything_is_written() -> None:
    found = texts(full())
    assert list(found) == [
        "tosa_spec",
        "compile_flags",
        "output_format",
        "debug_artifact_path",
        "dump_debug_info",
        "transform_pipeline_config",
        "preserve_io_quantization",
        "tosa_sw_dev_mode",
        "target",
        "external_block_placements",
    ]
    assert found["external_block_placements"] == '{"cmd_data":"c"}'
    assert '"softmax": "STABLE"' in found["transform_pipeline_config"]
    assert found["target"] == "ethos-u55-128"
    assert "--accelerator-config=ethos-u55-128" in found["compile_flags"].split()


def test_a_debug_mode_needs_a_folder() -> None:
    with pytest.raises(ValueError, match="dump_intermediate_artifacts_to"):
        EthosUCompileSpec("ethos-u55-128").dump_debug_info(DebugMode.JSON).to_list()


def test_upper_case_in_lists_of_others_becomes_lower_case() -> None:
    found = EthosUCompileSpec("ethos-u55-128").to_list()
    written = [CompileSpec(one.key, one.value.replace(b"ethos-u55", b"Ethos-U55")) for one in found]
    assert written != found and EthosUCompileSpec.from_list(written).to_list() == found


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"extra_flags": "--verbose-all"}, TypeError, "extra_flags is '--verbose-all', expected a list of texts"),
        ({"extra_flags": [3]}, TypeError, r"extra_flags is \[3\], expected a list"),
        ({"extra_flags": 0}, TypeError, "extra_flags is 0, expected a list"),
        ({"extra_flags": ["--one", ""]}, ValueError, "extra_flags is .*, expected no empty flags"),
        ({"system_config": ""}, ValueError, "system_config is '', expected a name .*'Ethos_U55_High_End_Embedded'"),
        ({"system_config": 3}, TypeError, "system_config is 3, expected str or None"),
        ({"memory_mode": ""}, ValueError, "memory_mode is '', expected a name without spaces, or None"),
        ({"memory_mode": "Sram Only"}, ValueError, "memory_mode is 'Sram Only', expected a name without spaces"),
        ({"memory_mode": False}, TypeError, "memory_mode is False, expected str or None"),
        ({"config_ini": ""}, ValueError, "config_ini is '', expected"),
        ({"config_ini": 3}, TypeError, "config_ini is 3, expected str"),
        ({"external_block_placements": {"cmd_data": "c"}}, TypeError, "expected VelaExternalBlockPlacements or None"),
    ],
)
def test_wrong_values(options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        EthosUCompileSpec("ethos-u55-128", **options)


def test_wrong_values_set_later() -> None:
    spec: Any = EthosUCompileSpec("ethos-u55-128")
    with pytest.raises(TypeError, match=r"debug_mode is 'JSON', expected DebugMode.JSON, DebugMode.TOSA or None"):
        spec.dump_debug_info("JSON")
    with pytest.raises(TypeError, match="output_path is 3, expected str or PathLike or None"):
        spec.dump_intermediate_artifacts_to(3)
    with pytest.raises(TypeError, match="config is 'MASKED', expected a PipelineConfig"):
        spec.set_pass_pipeline_config("MASKED")


def test_paths_may_be_path_objects() -> None:
    spec = EthosUCompileSpec("ethos-u55-128", config_ini=Path("mine.ini")).dump_intermediate_artifacts_to(Path("here"))
    assert "--config=mine.ini" in texts(spec)["compile_flags"] and texts(spec)["debug_artifact_path"] == "here"


def changed(key: str, value: bytes | None) -> list[CompileSpec]:
    """The list of a spec with one value changed, or left out."""
    found = {one.key: one.value for one in EthosUCompileSpec("ethos-u55-128").to_list()}
    found = {**found, key: value} if value is not None else {k: v for k, v in found.items() if k != key}
    return [CompileSpec(k, v) for k, v in found.items()]


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("tosa_spec", None, "no tosa_spec"),
        ("target", None, "no target"),
        ("compile_flags", b"", "no compile_flags"),
        ("target", b"ethos-u55-1", "does not exist"),
        ("target", b"ethos-u85-256", "expected TOSA-1"),
        ("output_format", b"tosa", "expected 'vela'"),
        ("tosa_spec", b"TOSA-2.0+INT", "TOSA-1.0"),
        ("tosa_spec", b"TOSA-1.0+INT+int5+u55", "int5"),
        ("tosa_spec", b"TOSA-1.0+INT+FP+u55", "INT alone"),
        ("dump_debug_info", b"XML", "JSON, TOSA"),
        ("external_block_placements", b'{"code":"x"}', "code"),
        ("external_block_placements", b"[]", "mapping"),
        ("external_block_placements", b'{"cmd_data":""}', "cmd_data"),
        ("transform_pipeline_config", b'{"softmax":"FAST"}', "FAST"),
        ("transform_pipeline_config", b'{"norm":1}', "norm"),
        ("other", b"", "other"),
    ],
)
def test_lists_of_others_are_refused(key: str, value: bytes | None, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        EthosUCompileSpec.from_list(changed(key, value))


def test_a_key_twice_is_refused() -> None:
    found = EthosUCompileSpec("ethos-u55-128").to_list()
    with pytest.raises(ValueError, match="'target' twice"):
        EthosUCompileSpec.from_list([*found, found[-1]])


@pytest.mark.parametrize("tag", ["", "ä", 3])
def test_placements_are_ascii(tag: str) -> None:
    with pytest.raises(ValueError, match="ASCII"):
        VelaExternalBlockPlacements(weight_data=tag)


@pytest.mark.parametrize("text", ["TOSA-1.0+INT+int16+8k+u55", "TOSA-1.0+INT+FP+int4", "TOSA-1.1+INT"])
def test_specifications_survive(text: str) -> None:
    assert str(TosaSpec.parse(text)) == text
