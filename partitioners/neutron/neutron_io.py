"""The metadata entry that says which delegate inputs and outputs the runtime brings to channels-last.

It is there when the device does not convert formats itself (`use_neutron_for_format_conversion` is False):
a JSON list with one flag per model input, then one per model output. For a flag that is true, the
caller's tensor is channels-first [N, C, ...] while the model's is channels-last [N, ..., C].
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

from npu_assay.partitioners.exir.flatbuffer import FormatError

KEY: Final = "neutron_io"


def encode(inputs: Sequence[bool], outputs: Sequence[bool]) -> bytes:
    """The metadata entry's bytes."""
    return json.dumps([*map(bool, inputs), *map(bool, outputs)]).encode()


def decode(data: bytes | None, inputs: int, outputs: int) -> tuple[tuple[bool, ...], tuple[bool, ...]]:
    """Flags of inputs and outputs; all False without an entry. Raises FormatError for anything else."""
    if data is None:
        return (False,) * inputs, (False,) * outputs
    expected = f"a JSON list of {inputs + outputs} booleans"
    flags = _parsed(data, expected)
    if len(flags) != inputs + outputs or not all(isinstance(flag, bool) for flag in flags):
        raise FormatError("flags", data[:80], expected, f"metadata {KEY!r}")
    return tuple(flags[:inputs]), tuple(flags[inputs:])


def _parsed(data: bytes, expected: str) -> list[bool]:
    try:
        flags = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise FormatError("flags", data[:80], expected, f"metadata {KEY!r}") from error
    return flags if isinstance(flags, list) else []
