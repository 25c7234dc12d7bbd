"""A device's limits grow with what a model's file stores, and only with that."""

from __future__ import annotations

import numpy as np

from npu_assay.partitioners.common.stored import stored_bytes


def test_parts_of_a_file_count_once() -> None:
    file = np.zeros(100, np.int8)
    other = np.zeros((5, 4), np.int32)
    assert stored_bytes([]) == stored_bytes([None]) == 0
    assert stored_bytes([file, None, other]) == 180
    assert stored_bytes([file[10:60], file[50:80], file[55:58], file[10:60]]) == 70
    assert stored_bytes([file] * 1000) == 100
