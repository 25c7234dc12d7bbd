"""Constants that several delegate blobs have in common, moved out of them so that a program file has them once.

A blob then names such a constant by the SHA-256 digest of its bytes, as blobs of ExecuTorch's compiler name all
of theirs, and the program file has the data beside the blobs, under that name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from hashlib import sha256

from npu_assay.partitioners.exir.flatbuffer import Record
from npu_assay.partitioners.xnnpack.xnn_format import Buffers, Constants, assembled, parts

Shared = tuple[bytes, dict[str, bytes]]
"""A blob, and the data that it only names."""


def shared(blobs: Sequence[bytes]) -> list[Shared]:
    """The blobs with what two different ones have in common stored beside them; the others stay as they are.

    Equal blobs need no sharing: a program file has them once. Raises FormatError for bytes that are not such a blob.
    """
    opened = {blob: _opened(blob) for blob in blobs}
    counts = Counter(name for _, constants in opened.values() for name in {_name(data) for data in constants})
    common = {name for name, count in counts.items() if count > 1}
    moved = {blob: _moved(blob, *found, common) for blob, found in opened.items()}
    return [moved[blob] for blob in blobs]


def _opened(blob: bytes) -> tuple[Record, list[bytes]]:
    """The subgraph's record and its constants in order, without the first, which stands for no data."""
    record, data = parts(blob)
    records = record["constant_data"] or []
    buffers = Buffers(records, data, {})
    return record, [bytes(buffers.raw(index, f"constant {index}")) for index in range(1, len(records))]


def _name(data: bytes) -> str:
    return sha256(data).hexdigest()


def _moved(blob: bytes, record: Record, constants: Sequence[bytes], common: Collection[str]) -> Shared:
    """The blob without the constants of these names, and their data by name."""
    kept, named = Constants(), dict[str, bytes]()
    for data in constants:
        key = _name(data)
        if key in common:
            kept.name(key, len(data))
            named[key] = data
        else:
            kept.append(data)
    return (assembled({**record, "constant_data": kept.records}, kept.data()), named) if named else (blob, {})
