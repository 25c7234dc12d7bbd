"""The configs, one class per operator in the module of its family, and the list of all of them.

Each is also found here by its name.
"""

from __future__ import annotations

from npu_assay.partitioners.xnnpack.config import PartitionerConfig
from npu_assay.partitioners.xnnpack.configs import codes, elementwise, layout, linear, pooling

_BY_NAME: dict[str, type[PartitionerConfig]] = {
    name: found
    for family in (codes, elementwise, layout, linear, pooling)
    for name, found in sorted(vars(family).items())
    if isinstance(found, type) and issubclass(found, PartitionerConfig) and hasattr(found, "target")
}
COMPILED: tuple[type[PartitionerConfig], ...] = tuple(_BY_NAME[name] for name in sorted(_BY_NAME))
ALL_CONFIGS = tuple(config for config in COMPILED if config is not layout.SqueezeCopyConfig)
LOWERED: dict[str, type[PartitionerConfig]] = {config.target: config for config in COMPILED if config.lower is not None}
"""The operators that the compiler knows."""


def __getattr__(name: str) -> type[PartitionerConfig]:
    if name in _BY_NAME:
        return _BY_NAME[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
