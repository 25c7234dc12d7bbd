"""Choices of the model's author about which nodes to delegate."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class CustomDelegationOptions:
    """Allows what the partitioner refuses by default.

    force_delegate_cat: judge a concatenation by its quantization and its partition only, not by channels.
    allow_no_op_partitions: keep partitions in which nothing is computed, only reshaped or copied.
    """

    force_delegate_cat: bool = False
    allow_no_op_partitions: bool = False

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not isinstance(value, bool):
                raise TypeError(f"CustomDelegationOptions.{name} is {value!r}, expected True or False")
