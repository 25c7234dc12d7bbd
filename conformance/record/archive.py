"""One file that holds a run: a zip archive without compression, the same bytes for the same files.

Members stand at the top, sorted by name, with one fixed time. An archive from elsewhere is never unpacked to disk: its
members are read into memory, by known names and up to known sizes.
"""

from __future__ import annotations

import io
import re
import stat
import struct
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from npu_assay.conformance.common.files import unpacked
from npu_assay.conformance.record.names import FILES, JOURNAL, LIMITS, Contents, PackageError
from npu_assay.files import read_regular

TIME = (1980, 1, 1, 0, 0, 0)  # the earliest that the format knows
MEMBERS = tuple(name for name in FILES if name != JOURNAL)
LARGEST = 2**31  # bytes of an archive; the members' own limits hold besides
MOST = 64  # entries that are looked at; more is no archive of ours
RATIO = 200  # bytes from one compressed byte; text of this kind gives about 20
FREE = 2**20  # bytes of a member to which the ratio does not apply
END = struct.Struct("<4s4H2LH")  # the last record: signature, disks, entries (here, all), size and place, comment
DIRECTORY = 2**16  # bytes
DAMAGED = (zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError, NotImplementedError, RuntimeError)


def archive_bytes(files: Mapping[str, bytes]) -> bytes:
    """An archive of these files."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(files):
            info = zipfile.ZipInfo(name, TIME)
            info.create_system = 3  # Unix, wherever it is made
            info.external_attr = (stat.S_IFREG | 0o644) << 16
            archive.writestr(info, files[name])
    return out.getvalue()


def read_archive(path: Path) -> Contents:
    """The files of an archive.

    What is wrong with single members is in `problems`. Raises PackageError for a file that is not an archive of a run,
    and for one that no run makes: names that point outside, links, encryption, sizes beyond any run's.
    """
    data = _bytes(path)
    entries = _check_end(path, data)
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            infos = archive.infolist()
            if len(infos) != entries:
                raise PackageError(f"{path}: damaged: found {len(infos)} entries, expected {entries}")
            for info in infos:
                _check_member(path, info)
            files, problems = _members(archive, infos)
    except DAMAGED as error:
        if isinstance(error, PackageError):
            raise
        raise PackageError(f"{path}: not a readable archive ({error})") from error
    again = bool(problems) or archive_bytes(files) == data
    notes = (
        ()
        if again
        else (f"{path} was packed by something else than 'assay package'; only the files in it are checked",)
    )
    return Contents(str(path), files, tuple(problems), notes)


def _bytes(path: Path) -> bytes:
    try:
        return read_regular(path, LARGEST)
    except FileNotFoundError:
        raise PackageError(f"{path}: no such folder or archive") from None
    except OSError as error:
        raise PackageError(f"{path}: cannot be read ({error.strerror})") from error


def _check_end(path: Path, data: bytes) -> int:
    """The number of entries that the last record states, if that record can be right.

    Checked before anything reads what it points to: few entries, a short directory, no bytes after it.
    """
    tail = data[-END.size :]
    if len(tail) < END.size or not tail.startswith(b"PK\5\6"):
        raise PackageError(
            f"{path}: not a zip archive, or cut off; expected a folder, or an archive of 'assay package'"
        )
    _, disk, first, here, entries, size, place, comment = END.unpack(tail)
    if data[-END.size - 20 :].startswith(b"PK\6\7") or disk or first or comment or here != entries:
        raise PackageError(
            f"{path}: found a zip archive with several disks, Zip64 or a comment, expected one of 'assay package'"
        )
    if entries > MOST or size > DIRECTORY:
        raise PackageError(
            f"{path}: found {entries} entries in a directory of {size} bytes, expected at most {MOST} in {DIRECTORY}"
        )
    if place + size != len(data) - END.size:
        raise PackageError(f"{path}: damaged: found {len(data)} bytes, expected {place + size + END.size}")
    return int(entries)


def _check_member(path: Path, info: zipfile.ZipInfo) -> None:
    """Refuse an entry that no run packs. Raises PackageError."""
    name, mode = info.orig_filename, info.external_attr >> 16
    where = f"{path}: entry {name!r:.80}"
    if not re.fullmatch(r"[\w.-]+", name) or name in (".", ".."):
        raise PackageError(f"{where}: the name of a file elsewhere, expected one such as {MEMBERS[0]}")
    if stat.S_IFMT(mode) not in (0, stat.S_IFREG):
        raise PackageError(f"{where}: a link or a device, expected a file")
    if info.flag_bits & 1:
        raise PackageError(f"{where}: encrypted, expected plain bytes")
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise PackageError(f"{where}: compressed by method {info.compress_type}, expected 0 or 8 (stored, deflated)")
    limit = LIMITS.get(name, 0)
    if limit and info.file_size > limit:
        raise PackageError(f"{where}: {info.file_size} bytes, expected at most {limit}")
    if info.file_size > FREE + RATIO * info.compress_size:
        most = FREE + RATIO * info.compress_size
        raise PackageError(
            f"{where}: {info.compress_size} bytes that unpack to {info.file_size}, expected at most {most}"
        )


def _members(archive: zipfile.ZipFile, infos: Sequence[zipfile.ZipInfo]) -> tuple[dict[str, bytes], list[str]]:
    """The known files, the first of each name, and what is wrong with the entries."""
    files, problems = dict[str, bytes](), list[str]()
    for info in infos:
        name = info.filename
        if name not in MEMBERS:
            problems.append(f"{name}: not a file of a run, expected only {', '.join(MEMBERS)}")
        elif name in files:
            problems.append(f"{name} stands twice in the archive")
        else:
            try:
                files[name] = unpacked(archive, info)
            except DAMAGED as error:
                problems.append(f"{name}: its bytes are not those that were packed ({error})")
    return files, problems
