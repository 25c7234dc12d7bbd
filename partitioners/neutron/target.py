"""The Neutron NPUs that can be compiled for, and the numbers that operator limits depend on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType

from npu_assay.partitioners.neutron.target_info import NeutronTargetNeutronC


class HwVersion(Enum):
    """Generation of the NPU."""

    N1 = 1
    N3 = 2


@dataclass(frozen=True)
class NeutronTarget:
    """One SoC. `subsystem` tells Neutron-S (application processors) from Neutron-C (MCUs)."""

    name: str
    subsystem: bool
    num_units: int
    num_pipes: int
    num_macs: int
    hw_version: HwVersion


TARGETS: Mapping[str, NeutronTarget] = MappingProxyType(
    {"imxrt700": NeutronTarget("imxrt700", False, 1, num_pipes=8, num_macs=8, hw_version=HwVersion.N3)}
)


def verify_target(target: str, targets: Mapping[str, NeutronTarget] = TARGETS) -> NeutronTarget:
    """The record of the SoC called `target`.

    Raises ValueError when it is unknown, a Neutron-S subsystem, or of another generation than N3.
    """
    found = targets.get(target) if isinstance(target, str) else None
    if found is None:
        raise ValueError(f"target: found {target!r}, expected the id of a known SoC, one of {sorted(targets)}")
    if found.subsystem:
        raise ValueError(f"target: found {target!r}, which has a Neutron-S subsystem, expected an MCU with Neutron-C")
    if found.hw_version is not HwVersion.N3:
        generation = found.hw_version.name
        raise ValueError(f"target: found {target!r}, whose NPU is of generation {generation}, expected generation N3")
    return found


class NeutronTargetSpec:
    """The NPU of one SoC, by SoC id. Raises ValueError for a SoC that cannot be compiled for.

    `targets` replaces the built-in list of SoCs. `neutron_target_info` tells which operators it fuses.
    """

    def __init__(self, target: str, targets: Mapping[str, NeutronTarget] = TARGETS) -> None:
        self.neutron_target = verify_target(target, targets)
        self.neutron_target_info = NeutronTargetNeutronC()

    def get_name(self) -> str:
        """The SoC id."""
        return self.neutron_target.name

    def is_subsystem(self) -> bool:
        """Whether the NPU is a Neutron-S subsystem."""
        return self.neutron_target.subsystem

    def get_num_units(self) -> int:
        """Number of compute units."""
        return self.neutron_target.num_units

    def get_num_pipes(self) -> int:
        """Number of pipelines."""
        return self.neutron_target.num_pipes

    def get_num_macs(self) -> int:
        """Multiply-accumulate units per pipeline: what channel counts must be a multiple of."""
        return self.neutron_target.num_macs

    def get_hw_version(self) -> HwVersion:
        """Generation of the NPU."""
        return self.neutron_target.hw_version
