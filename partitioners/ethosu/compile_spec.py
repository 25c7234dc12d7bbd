"""How to compile for Ethos-U: the target, the options of Vela, and both as a list of key-value pairs.

Keys, order and encoding are those of ExecuTorch v1.5.1. Readers look values up by key.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from enum import Enum
from os import PathLike, fspath
from typing import Any

from npu_assay.partitioners.ethosu.options import TosaSpec, family_of
from npu_assay.partitioners.exir.arguments import require_type
from npu_assay.partitioners.exir.backend import CompileSpec

OUTPUT_FORMAT = "vela"
DEFAULT_INI = "Arm/vela.ini"
BLOCKS = ("cmd_data", "weight_data")
ACCELERATOR = "--accelerator-config="
TRUE_TEXTS = ("1", "true", "yes")


class DebugMode(Enum):
    """Formats of the debug information that a compiler may leave behind."""

    JSON = 1
    TOSA = 2


@dataclass(frozen=True)
class VelaExternalBlockPlacements:
    """Tags of the blobs that hold commands and weights outside the delegate; None keeps them inside.

    Raises ValueError for a tag that is empty or not ASCII.
    """

    cmd_data: str | None = None
    weight_data: str | None = None

    def __post_init__(self) -> None:
        for name in BLOCKS:
            tag = getattr(self, name)
            if tag is not None and not (isinstance(tag, str) and tag and tag.isascii()):
                raise ValueError(f"{name} has the placement {tag!r}, expected a non-empty ASCII text or None")

    def to_block_placements(self) -> dict[str, str]:
        """The tags that are given, by block."""
        return {name: tag for name in BLOCKS if (tag := getattr(self, name)) is not None}


@dataclass(frozen=True)
class QuantizeInf:
    """The real numbers that stand for minus and plus infinity when a model is quantized."""

    neg_inf: float = -256.0
    pos_inf: float = 255.0


@dataclass(frozen=True)
class PipelineConfig:
    """How some operators are rewritten before quantization. Raises ValueError for a choice that does not exist."""

    softmax: str = "MASKED"
    leaky_relu: str = "DECOMPOSE"
    quantize_inf: QuantizeInf = QuantizeInf()
    sdpa_safe_softmax_guard: str = "PRESERVE"

    def __post_init__(self) -> None:
        for name, choices in _CHOICES.items():
            if getattr(self, name) not in choices:
                raise ValueError(f"{name} is {getattr(self, name)!r}, expected one of {', '.join(choices)}")

    def to_bytes(self) -> bytes:
        """The configuration as JSON."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def from_text(cls, text: str) -> PipelineConfig:
        """The configuration from JSON; what is left out has its default. Raises ValueError for anything else."""
        found = _mapping(text, tuple(field.name for field in fields(cls)), "transform_pipeline_config")
        infinities = found.pop("quantize_inf", None)
        if infinities is not None:
            found["quantize_inf"] = QuantizeInf(**_known(infinities, ("neg_inf", "pos_inf"), "quantize_inf"))
        return cls(**found)


_CHOICES = {
    "softmax": ("MASKED", "STABLE"),
    "leaky_relu": ("DECOMPOSE", "TABLE"),
    "sdpa_safe_softmax_guard": ("PRESERVE", "REMOVE", "REMOVE_WHEN_PROVEN"),
}


class EthosUCompileSpec:
    """What a model is compiled for, and with which flags.

    target: the accelerator, such as "ethos-u55-128"; upper case becomes lower case, which Vela requires.
    system_config, memory_mode: of Vela's configuration file; default: those of the target's family.
    extra_flags: a list; they come first among Vela's flags.
    config_ini: Vela's configuration file.
    external_block_placements: the names of Vela's commands and weights outside the delegate.

    Raises ValueError for a target that does not exist and for empty names, TypeError for values of other types.
    """

    def __init__(
        self,
        target: str,
        system_config: str | None = None,
        memory_mode: str | None = None,
        extra_flags: Sequence[str] | None = None,
        config_ini: str | PathLike[str] | None = DEFAULT_INI,
        external_block_placements: VelaExternalBlockPlacements | None = None,
    ) -> None:
        self.family = family_of(target)
        config_ini = fspath(config_ini) if isinstance(config_ini, PathLike) else config_ini
        self.target = target.lower()
        self.tosa_spec: TosaSpec = self.family.tosa_spec
        self.compiler_flags = [
            *_extra_flags(extra_flags),
            f"{ACCELERATOR}{self.target}",
            f"--config={_name('config_ini', config_ini, DEFAULT_INI)}",
            "--output-format=raw",
            f"--system-config={_name('system_config', system_config, self.family.system_config)}",
            f"--memory-mode={_name('memory_mode', memory_mode, self.family.memory_mode)}",
        ]
        require_type("external_block_placements", external_block_placements, VelaExternalBlockPlacements)
        self.external_block_placements = external_block_placements or VelaExternalBlockPlacements()
        self.path_for_intermediates: str | None = None
        self.debug_mode: DebugMode | None = None
        self.pipeline_config: PipelineConfig | None = None
        self.preserve_io_quantization = False
        self.tosa_dev_mode: bool | None = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, EthosUCompileSpec) and self.to_list() == other.to_list()

    def __hash__(self) -> int:
        return hash((self.target, tuple(self.compiler_flags)))

    def __repr__(self) -> str:
        return f"EthosUCompileSpec({self.target!r}, flags={' '.join(self.compiler_flags)!r})"

    def dump_intermediate_artifacts_to(self, output_path: str | PathLike[str] | None) -> EthosUCompileSpec:
        """Leave the report of the partitioner in that folder; None leaves nothing. Raises TypeError for no path."""
        require_type("output_path", output_path, (str, PathLike))
        self.path_for_intermediates = None if output_path is None else fspath(output_path)
        return self

    def dump_debug_info(self, debug_mode: DebugMode | None) -> EthosUCompileSpec:
        """Write debug information to the folder of `dump_intermediate_artifacts_to`, which must be given, too.

        Raises TypeError for a value that is not a DebugMode.
        """
        if not isinstance(debug_mode, DebugMode | None):
            raise TypeError(f"debug_mode is {debug_mode!r}, expected {', '.join(map(str, DebugMode))} or None")
        self.debug_mode = debug_mode
        return self

    def get_pass_pipeline_config(self) -> PipelineConfig:
        """How operators are rewritten before quantization; the target's default when nothing else was set."""
        if self.pipeline_config is None:
            self.pipeline_config = PipelineConfig(softmax="STABLE" if self.tosa_spec.is_u55_subset else "MASKED")
        return self.pipeline_config

    def set_pass_pipeline_config(self, config: PipelineConfig) -> None:
        """Rewrite operators that way before quantization. Raises TypeError for a value that is not a PipelineConfig."""
        if not isinstance(config, PipelineConfig):
            raise TypeError(f"config is {config!r}, expected a PipelineConfig")
        self.pipeline_config = config

    def set_preserve_io_quantization(self, enabled: bool) -> EthosUCompileSpec:
        """Leave quantization at the model's border to the CPU, which is what always happens: warns that it is so."""
        self.preserve_io_quantization = enabled
        if enabled:
            warnings.warn("preserve_io_quantization: delegates always take and give codes", UserWarning, stacklevel=2)
        return self

    def to_list(self) -> list[CompileSpec]:
        """The key-value pairs that go with every delegate. Raises ValueError for a debug mode without a folder."""
        if self.debug_mode is not None and not self.path_for_intermediates:
            raise ValueError("dump_debug_info() without a folder, expected dump_intermediate_artifacts_to() before")
        rewritten = self.pipeline_config if self.pipeline_config != PipelineConfig() else None
        placements = self.external_block_placements.to_block_placements()
        found: dict[str, str | bytes | None] = {
            "tosa_spec": str(self.tosa_spec),
            "compile_flags": " ".join(self.compiler_flags),
            "output_format": OUTPUT_FORMAT,
            "debug_artifact_path": self.path_for_intermediates,
            "dump_debug_info": None if self.debug_mode is None else self.debug_mode.name,
            "transform_pipeline_config": None if rewritten is None else rewritten.to_bytes(),
            "preserve_io_quantization": str(bool(self.preserve_io_quantization)),
            "tosa_sw_dev_mode": None if self.tosa_dev_mode is None else str(bool(self.tosa_dev_mode)),
            "target": self.target,
            "external_block_placements": json.dumps(placements, sort_keys=True, separators=(",", ":"))
            if placements
            else None,
        }
        return [CompileSpec(key, _bytes(value)) for key, value in found.items() if value is not None]

    @classmethod
    def from_list(cls, compile_specs: Sequence[CompileSpec]) -> EthosUCompileSpec:
        """The inverse of `to_list`. Raises ValueError for keys twice, missing or unknown, and for values of others."""
        values = _values(compile_specs)
        spec = cls(_needed(values, "target"))
        flags = _needed(values, "compile_flags").split(" ")
        spec.compiler_flags = [flag.lower() if flag.startswith(ACCELERATOR) else flag for flag in flags]
        spec.tosa_spec = _checked_spec(TosaSpec.parse(_needed(values, "tosa_spec")), spec)
        if (found := _needed(values, "output_format")) != OUTPUT_FORMAT:
            raise ValueError(f"output_format is {found!r}, expected {OUTPUT_FORMAT!r}")
        spec.path_for_intermediates = values.get("debug_artifact_path")
        spec.debug_mode = _debug_mode(values.get("dump_debug_info"))
        if "transform_pipeline_config" in values:
            spec.pipeline_config = PipelineConfig.from_text(values["transform_pipeline_config"])
        spec.preserve_io_quantization = values.get("preserve_io_quantization", "").lower() in TRUE_TEXTS
        if "tosa_sw_dev_mode" in values:
            spec.tosa_dev_mode = values["tosa_sw_dev_mode"].lower() in TRUE_TEXTS
        if "external_block_placements" in values:
            text = values["external_block_placements"]
            found_blocks = _mapping(text, BLOCKS, "external_block_placements")
            spec.external_block_placements = VelaExternalBlockPlacements(**found_blocks)
        return spec


_KEYS = (
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
)


def _extra_flags(flags: Sequence[str] | None) -> tuple[str, ...]:
    if flags is None:
        return ()
    # A text is a sequence of its letters, none of which is a flag.
    if not isinstance(flags, (list, tuple)) or not all(isinstance(flag, str) for flag in flags):
        raise TypeError(f"extra_flags is {flags!r}, expected a list of texts, e.g. ['--verbose-all']")
    if not all(flag.strip() for flag in flags):
        raise ValueError(f"extra_flags is {flags!r}, expected no empty flags")
    return tuple(flags)


def _name(what: str, given: str | None, default: str) -> str:
    """A name in one of Vela's flags, which are separated by spaces."""
    require_type(what, given, str)
    if given is not None and len(given.split()) != 1:
        raise ValueError(f"{what} is {given!r}, expected a name without spaces, or None for {default!r}")
    return default if given is None else given


def _bytes(value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else value


def _values(compile_specs: Sequence[CompileSpec]) -> dict[str, str]:
    """The values as text, by key."""
    values: dict[str, str] = {}
    for spec in compile_specs:
        if spec.key in values:
            raise ValueError(f"compile spec has {spec.key!r} twice, expected every key once")
        if spec.key not in _KEYS:
            raise ValueError(f"compile spec has the key {spec.key!r}, expected one of {', '.join(_KEYS)}")
        values[spec.key] = bytes(spec.value).decode()
    return values


def _needed(values: dict[str, str], key: str) -> str:
    found = values.get(key)
    if not found:
        raise ValueError(f"compile spec has no {key}, expected one")
    return found


def _checked_spec(found: TosaSpec, spec: EthosUCompileSpec) -> TosaSpec:
    """The TOSA specification, when the target can run it and the compiler can write it."""
    if found.is_u55_subset != spec.family.tosa_spec.is_u55_subset:
        raise ValueError(f"tosa_spec is {found} for {spec.target}, expected {spec.family.tosa_spec}")
    if found.profiles != ("INT",):
        raise ValueError(f"tosa_spec has the profiles {list(found.profiles)}, expected INT alone")
    return found


def _debug_mode(name: str | None) -> DebugMode | None:
    if name is not None and name not in DebugMode.__members__:
        raise ValueError(f"dump_debug_info is {name!r}, expected one of {', '.join(DebugMode.__members__)}")
    return None if name is None else DebugMode[name]


def _mapping(text: str, names: tuple[str, ...], where: str) -> dict[str, Any]:
    return _known(json.loads(text), names, where)


def _known(found: object, names: tuple[str, ...], where: str) -> dict[str, Any]:
    """A copy of a mapping that has no other keys than these."""
    if not isinstance(found, dict):
        raise ValueError(f"{where} is a {type(found).__name__}, expected a mapping")
    strange = sorted(found.keys() - set(names))
    if strange:
        raise ValueError(f"{where} has {strange}, expected keys out of {list(names)}")
    return dict(found)
