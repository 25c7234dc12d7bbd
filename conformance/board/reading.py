"""Finds, names and reads the runs of a board; a run is read again only if its bytes changed.

The cache has the sizes, times and digests of each run's files, and the summary. If sizes and times are equal, no file
is opened. If only times differ, as after a fresh checkout, the digests are compared.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from npu_assay import __version__
from npu_assay.conformance.board.digest import READ, Digest, as_data, digest, of_data
from npu_assay.conformance.common.errors import UsageError
from npu_assay.conformance.record.archive import LARGEST
from npu_assay.conformance.record.folder import refuse_foreign, writing
from npu_assay.conformance.record.names import CERTIFICATE, JOURNAL, LIMITS, PackageError
from npu_assay.files import read_regular, write_whole

CACHE = ".assay-board.json"
SCHEMA = f"7 of {__version__}"
ALONE = 4  # runs that one process reads before others help


@dataclass(frozen=True)
class Asked:
    """A run as the command line names it: its path, and its label if it has one."""

    label: str
    path: Path


@dataclass(frozen=True)
class Read:
    """A run of the board. name: unique, and short. release: its label, or its table's version."""

    name: str
    release: str
    digest: Digest
    path: Path = Path()


@dataclass(frozen=True)
class Runs:
    """The runs that were read. broken: name and reason of each that cannot be read. cases: ids by their digest.

    fresh: how many runs the cache did not have. again: names of those that were given twice, and under which name
    they count: runs of one release with the same certificate.
    """

    runs: tuple[Read, ...]
    broken: tuple[tuple[str, str], ...]
    again: tuple[tuple[str, str], ...]
    cases: Mapping[str, tuple[str, ...]]
    fresh: int


def asked(words: Sequence[str]) -> tuple[Asked, ...]:
    """The runs that words of a command line mean: [LABEL=]RUN, or a folder that holds runs, each once.

    Raises UsageError for a word without a path.
    """
    found: dict[Path, Asked] = {}
    for word in words:
        label, equals, rest = word.partition("=")
        named = bool(equals) and not Path(word).exists()
        text = rest if named else word
        if not text:
            raise UsageError(f"RUN {word!r}: found no path, expected [LABEL=]RUN, a folder or an archive")
        for one in _inside(Path(text)):
            found.setdefault(one.resolve(), Asked(label if named else "", one))
    return tuple(found.values())


def _inside(path: Path) -> Iterable[Path]:
    """The path, or the runs and archives in it if it is a folder but not a run."""
    if not path.is_dir() or _is_run(path):
        return [path]
    inside = sorted(each for each in path.iterdir() if (each.is_dir() and _is_run(each)) or each.suffix == ".zip")
    return inside or [path]


def _is_run(folder: Path) -> bool:
    return any((folder / name).exists() for name in (CERTIFICATE, JOURNAL))


def read(runs: Sequence[Asked], folder: Path, workers: int) -> tuple[Runs, dict[str, Any]]:
    """Read runs with the help of a folder's cache; returns them and the cache for the next time."""
    old = _cache(folder / CACHE)
    entries, todo = dict[str, dict[str, Any]](), list[Asked]()
    for one in runs:
        entry = _unchanged(one.path, old["runs"].get(str(one.path)))
        if entry is None:
            todo.append(one)
        else:
            entries[str(one.path)] = entry
    cases = {key: tuple(ids) for key, ids in old["cases"].items()}
    for one, (entry, ids) in zip(todo, for_all(_entry, [one.path for one in todo], workers), strict=True):
        entries[str(one.path)] = entry
        if ids is not None:
            cases[entry["digest"]["cases"]] = ids
    found, cache = _runs(runs, entries, cases, {one.path for one in todo})
    return found, {**cache, "ready": old["ready"]}


def for_all(act: Callable[[Path], Any], paths: Sequence[Path], workers: int) -> list[Any]:
    """The results of `act` for all paths, by several processes if there are many."""
    if workers == 1 or len(paths) <= ALONE:
        return [act(path) for path in paths]
    with ProcessPoolExecutor(workers) as pool:
        return list(pool.map(act, paths))


def _entry(path: Path) -> tuple[dict[str, Any], tuple[str, ...] | None]:
    """A run's entry in the cache, with its summary or why it cannot be read, and its cases' ids."""
    try:
        before = _state(path)
        found, ids = digest(path)
        entry = {"state": before, "sha256": _sha256(path), "digest": as_data(found)}
    except OSError as error:
        return {"broken": f"cannot be read ({error.strerror})"}, None
    except UsageError as error:
        return {"broken": str(error).removeprefix(f"{path}: ")}, None
    return entry, ids


def _files(path: Path) -> list[Path]:
    return [path / name for name in READ] if path.is_dir() else [path]


def _state(path: Path) -> list[list[int]]:
    """The sizes and times of those files of a run that exist. Raises OSError."""
    stats = [file.stat() for file in _files(path) if file.exists()]
    return [[stat.st_size, stat.st_mtime_ns] for stat in stats]


def _sha256(path: Path) -> list[str]:
    """Digests of the same files. Raises OSError."""
    found = []
    for file in _files(path):
        found.append(hashlib.sha256(read_regular(file, LIMITS.get(file.name, LARGEST))).hexdigest())
    return found


def _unchanged(path: Path, entry: Any) -> dict[str, Any] | None:
    """The cache's entry of a run whose bytes are unchanged; None if it must be read."""
    try:
        if entry is None or "digest" not in entry:
            return None
        state = _state(path)
        if entry["state"] == state:
            return dict(entry)
        if [size for size, _ in entry["state"]] == [size for size, _ in state] and entry["sha256"] == _sha256(path):
            return {**entry, "state": state}
    except (OSError, KeyError, TypeError, ValueError):
        return None
    return None


def _cache(path: Path) -> dict[str, Any]:
    """The cache of an earlier build; an empty one for anything that this version did not write."""
    empty: dict[str, Any] = {"schema": SCHEMA, "runs": {}, "cases": {}, "ready": {}, "pages": []}
    try:
        data = json.loads(read_regular(path, LARGEST))
        if data["schema"] != SCHEMA:
            return empty | {"pages": list(data["pages"])}
        for entry in data["runs"].values():
            if of_data(entry["digest"]).cases not in data["cases"]:
                return empty
        return {key: data[key] for key in empty}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return empty


def written_before(folder: Path) -> tuple[str, ...]:
    """The pages of an earlier build. Raises PackageError for a folder that holds anything else."""
    if folder.exists() and not folder.is_dir():
        raise PackageError(f"{folder}: a file, expected a folder")
    if folder.exists():
        refuse_foreign(folder, (CACHE,), "assay board")
    return tuple(map(str, _cache(folder / CACHE)["pages"]))


def write_cache(folder: Path, cache: Mapping[str, Any], pages: Iterable[str]) -> None:
    """Write the cache for the next build. Raises PackageError if it cannot be written."""
    with writing(folder):
        text = json.dumps({**cache, "pages": sorted(pages)}, sort_keys=True, separators=(",", ":"))
        write_whole(folder / CACHE, text.encode())


def _runs(
    runs: Sequence[Asked],
    entries: Mapping[str, Mapping[str, Any]],
    cases: Mapping[str, tuple[str, ...]],
    fresh: Collection[Path],
) -> tuple[Runs, dict[str, Any]]:
    known, broken, again, anew = dict[tuple[str, str], Read](), list[tuple[str, str]](), list[tuple[str, str]](), 0
    for name, one in sorted(zip(_names([one.path for one in runs]), runs, strict=True), key=lambda pair: pair[0]):
        entry = entries[str(one.path)]
        if "digest" not in entry:
            broken.append((name, str(entry["broken"])))
            continue
        found = of_data(entry["digest"])
        release = one.label or found.version
        first = known.setdefault((release, found.certificate), Read(name, release, found, one.path))
        if first.name != name:
            again.append((name, first.name))
        else:
            anew += one.path in fresh
    read = tuple(known.values())
    used = {one.digest.cases for one in read}
    kept = {key: list(ids) for key, ids in cases.items() if key in used}
    good = {path: entry for path, entry in entries.items() if "digest" in entry}
    cache = {"schema": SCHEMA, "runs": good, "cases": kept}
    ids = {key: tuple(each) for key, each in kept.items()}
    return Runs(read, tuple(broken), tuple(again), ids, anew), cache


def _names(paths: Sequence[Path]) -> list[str]:
    """The shortest endings of the paths that are distinct."""
    parts = [path.resolve().parts for path in paths]
    return [_name(one, parts) for one in parts]


def _name(one: tuple[str, ...], others: Sequence[tuple[str, ...]]) -> str:
    for length in range(1, len(one)):
        end = one[-length:]
        if sum(other[-length:] == end for other in others) == 1:
            return "/".join(end)
    return "/".join(one[1:])
