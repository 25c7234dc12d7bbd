"""The Ethos-U NPUs that can be compiled for, and the TOSA specification that each of them runs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

U55_SUBSET = "u55"
"""The extension that stands for the limits of Ethos-U55 and Ethos-U65."""
PROFILES = ("INT", "FP")
EXTENSIONS: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "INT": frozenset({"int16", "int4", "var", "cf", U55_SUBSET}),
        "FP": frozenset({"bf16", "fp8e4m3", "fp8e5m2", "fft", "var", "cf"}),
    }
)
_TOSA_SPEC = re.compile(r"TOSA-(1\.[01])((?:\+\w+)+)")


@dataclass(frozen=True)
class TosaSpec:
    """A version of TOSA with the profiles and extensions in use; `str` gives the form that compile specs hold."""

    version: str
    profiles: tuple[str, ...]
    extensions: tuple[str, ...] = ()
    is_8k: bool = False

    @property
    def is_u55_subset(self) -> bool:
        """Whether the limits of Ethos-U55 and Ethos-U65 hold."""
        return U55_SUBSET in self.extensions

    def __str__(self) -> str:
        last = [name for name in self.extensions if name == U55_SUBSET]
        named = [name for name in self.extensions if name != U55_SUBSET]
        return "+".join([f"TOSA-{self.version}", *self.profiles, *named, *(["8k"] if self.is_8k else []), *last])

    @classmethod
    def parse(cls, text: str) -> TosaSpec:
        """The specification that a text like "TOSA-1.0+INT+int16" names. Raises ValueError for any other text."""
        found = _TOSA_SPEC.fullmatch(text)
        if found is None:
            raise ValueError(f"TOSA specification {text!r}, expected TOSA-1.0 or TOSA-1.1, a profile and extensions")
        parts = found[2].split("+")[1:]
        profiles = tuple(part for part in parts if part in PROFILES)
        extensions = tuple(part for part in parts if part not in (*PROFILES, "8k"))
        known = frozenset().union(*(EXTENSIONS[profile] for profile in profiles))
        strange = [name for name in extensions if name not in known]
        if not profiles or strange or len(set(parts)) != len(parts):
            raise ValueError(
                f"TOSA specification {text!r} has profiles {list(profiles)} and unknown extensions {strange}, "
                f"expected one of {list(PROFILES)} or both, and each extension once out of {sorted(known)}"
            )
        return cls(found[1], profiles, extensions, "8k" in parts)


@dataclass(frozen=True)
class Family:
    """One generation of the NPU: its name in targets, what Vela is told by default, and what it can run."""

    name: str
    system_config: str
    memory_mode: str
    tosa_spec: TosaSpec
    macs: tuple[int, ...]

    @property
    def targets(self) -> tuple[str, ...]:
        """The accelerators, with the number of multiply-accumulate units at the end of the name."""
        return tuple(f"{self.name}-{count}" for count in self.macs)


_U55 = TosaSpec("1.0", ("INT",), ("int16", "int4", U55_SUBSET))
_U85 = TosaSpec("1.0", ("INT",), ("int16", "int4", "cf"))
FAMILIES = (
    Family("ethos-u55", "Ethos_U55_High_End_Embedded", "Shared_Sram", _U55, (32, 64, 128, 256)),
    Family("ethos-u65", "Ethos_U65_High_End", "Dedicated_Sram_384KB", _U55, (256, 512)),
    Family("ethos-u85", "Ethos_U85_SYS_DRAM_Mid", "Sram_Only", _U85, (128, 256, 512, 1024, 2048)),
)
TARGETS: Mapping[str, Family] = MappingProxyType({name: family for family in FAMILIES for name in family.targets})


def family_of(target: str) -> Family:
    """The family of an accelerator. Upper case counts as lower case. Raises ValueError for one that does not exist."""
    found = TARGETS.get(target.lower()) if isinstance(target, str) else None
    if found is None:
        raise ValueError(f"target {target!r} does not exist, expected one of {', '.join(TARGETS)}")
    return found
