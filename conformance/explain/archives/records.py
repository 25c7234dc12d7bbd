"""The records of a `.pt2` archive: bounded before they are read, and those of one exported program only."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from torch._export.serde.schema import PayloadConfig
from torch._export.serde.serialize import _SERIALIZE_TO_TORCH_DTYPE

from npu_assay.conformance.common.errors import UsageError
from npu_assay.conformance.explain.archives.structure import read
from npu_assay.conformance.explain.archives.values import loaded

PROGRAM = "models/model.json"
FIXED = {"archive_format": b"pt2", "archive_version": b"0", "byteorder": b"little"}
"""Records whose content is known."""
PAYLOADS = {"data/weights/": re.compile(r"weight_\d{1,9}"), "data/constants/": re.compile(r"tensor_\d{1,9}")}
"""Folders of tensors, and what torch calls these: by other names it finds objects that it unpickles."""
CONFIGS = {"data/weights/": "model_weights_config.json", "data/constants/": "model_constants_config.json"}
LEFT_OUT = ("data/sample_inputs/model.pt", ".data/version", ".data/serialization_id", "version")
"""Records that are not read: sample inputs are pickled."""
FREE = "extra/"
"""Files of the user's own, which are not read either."""
MOST, LARGEST, JSON = 100_000, 2**34, 2**28  # records, bytes in all, bytes of JSON in one record


class Records:
    """The archive's records by the name that torch reads them under."""

    def __init__(self, archive: zipfile.ZipFile, size: int) -> None:
        entries = archive.infolist()
        _check_sizes(entries, size)
        self._archive = archive
        self._entries = _named(entries)
        for name, content in FIXED.items():
            if self.bytes_of(name) != content:
                raise UsageError(f"found {name} other than {content.decode()!r}, expected a program of this torch")

    def __contains__(self, name: str) -> bool:
        return name in self._entries

    def bytes_of(self, name: str) -> bytes:
        """A record's content. Raises UsageError where there is none."""
        if name not in self._entries:
            raise UsageError(f"found no {name}, expected the records of one exported program")
        return self._archive.read(self._entries[name])

    def json_of(self, name: str) -> Any:
        """A JSON record. Raises UsageError for one that is larger than any program's."""
        if name in self and self._entries[name].file_size > JSON:
            found = self._entries[name].file_size
            raise UsageError(f"found {name} of {found} bytes, expected at most {JSON}")
        return loaded(self.bytes_of(name))

    def size_of(self, name: str) -> int:
        return self._entries[name].file_size


def _check_sizes(entries: Sequence[zipfile.ZipInfo], size: int) -> None:
    """Raise UsageError for records that are compressed, lie in each other, or are too many or large."""
    if len(entries) > MOST:
        raise UsageError(f"found {len(entries)} records, expected at most {MOST}")
    for entry in entries:
        if entry.compress_type != zipfile.ZIP_STORED or entry.file_size != entry.compress_size or entry.flag_bits & 1:
            raise UsageError(
                f"found {entry.filename[:80]!r} compressed, expected records as torch.export.save writes them"
            )
    total = sum(entry.file_size for entry in entries)
    if total > min(size, LARGEST):
        raise UsageError(f"found records of {total} bytes in a file of {size}, expected at most {min(size, LARGEST)}")


def _named(entries: Sequence[zipfile.ZipInfo]) -> dict[str, zipfile.ZipInfo]:
    """The records by their names in the one folder that all are in."""
    found = dict[str, zipfile.ZipInfo]()
    folder = entries[0].filename.partition("/")[0] if entries else ""
    for entry in entries:
        root, _, name = entry.filename.partition("/")
        if root != folder or name in found or not _is_known(name):
            expected = f"{_writer(name)}, expected the records of one exported program"
            raise UsageError(f"found {entry.filename[:80]!r}{expected}")
        found[name] = entry
    return found


def _is_known(name: str) -> bool:
    folder, last = next(((each, name[len(each) :]) for each in PAYLOADS if name.startswith(each)), ("", ""))
    if folder:
        return last == CONFIGS[folder] or PAYLOADS[folder].fullmatch(last) is not None
    return name == PROGRAM or name in FIXED or name in LEFT_OUT or name.startswith(FREE)


def _writer(name: str) -> str:
    """The function of torch that writes such a record, and the one that is needed; "" where neither is known."""
    if name == "data.pkl":
        return " of torch.save or torch.jit.save; torch.export.save(torch.export.export(model, inputs), path) is needed"
    if name in ("data/weights/model.pt", "data/constants/model.pt"):
        return ", pickled tensors of an older torch; save the program again with this one"
    return ""


def payloads(records: Records, folder: str) -> tuple[dict[str, Any], list[str]]:
    """What torch is told of a folder's tensors, and the names of their records. Raises UsageError."""
    where = folder + CONFIGS[folder]
    config = _config(records, where)
    used = dict[str, None]()
    for path, tensor in config["config"].items():
        name = str(tensor.get("path_name"))
        if PAYLOADS[folder].fullmatch(name) is None or folder + name not in records:
            raise UsageError(f"{where}: found the record {name[:60]!r} of {path}, expected a tensor of this archive")
        _check_tensor(f"{where}: {path}", tensor.get("tensor_meta"), records.size_of(folder + name))
        used[folder + name] = None
    return config, list(used)


def _config(records: Records, where: str) -> dict[str, Any]:
    try:
        found: dict[str, Any] = read(PayloadConfig, records.json_of(where))
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from error
    return {"config": found.get("config", {})}


def _check_tensor(where: str, meta: Mapping[str, Any] | None, size: int) -> None:
    """Raise UsageError for a tensor that does not lie within its record."""
    match meta:
        case {"dtype": int(dtype), "sizes": list(sizes), "strides": list(strides), "storage_offset": offset}:
            numbers = [each.get("as_int", -1) for each in (*sizes, *strides, offset)]
        case _:
            numbers = [-1]
    if min(numbers) < 0 or len(sizes) != len(strides):
        raise UsageError(f"{where}: found invalid sizes, expected those of a tensor")
    width, shape = _SERIALIZE_TO_TORCH_DTYPE[dtype].itemsize, numbers[: len(sizes)]
    last = sum((n - 1) * step for n, step in zip(shape, numbers[len(sizes) :], strict=False)) + numbers[-1]
    within = size == 0 or not prod(shape) or (last + 1) * width <= size
    if not within or prod(shape) * width > LARGEST or size % width:
        raise UsageError(f"{where}: found sizes {shape} in a record of {size} bytes, expected those of a tensor in it")
