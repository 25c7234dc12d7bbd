"""Mutated `.pt2` files through the reader of `assay explain`: what becomes of them, and what their processes did.

Run from the repository:

    PYTHONPATH=tests/shared python benchmarks/hostile_models.py --count 10000 --seed 0 -n 2

A third are changed in their bytes, a third in the structure of their JSON, a third in their records. Each is read, and
run on random inputs where it is read, in a process of its own; every 500th is also explained. Nothing may end a process
by a signal, write, start a process or read a pickle: then the exit code is 1. The last lines are how often each outcome
came.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import logging
import multiprocessing
import os
import re
import sys
import tempfile
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from exported_programs import PROGRAMS
from hostile import mutated
from hostile_archives import HOSTILE
from pt2_archives import CODE, PICKLED, Archive, program, saved
from watching import watched

from npu_assay.conformance.common.errors import UsageError
from npu_assay.conformance.explain.confining import Request, found
from npu_assay.conformance.explain.models import load_model
from npu_assay.conformance.isolation.limits import Limits
from npu_assay.conformance.isolation.sandbox import Work, confined

LIMITS = Limits(20.0, 1024)
BASES = ("images of any number", "buffers", "recurrent", "regions", "a loop", "views", "other inputs", "functions")
EXPLAINED = 500
VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2, 3, 7, 2**31, 2**63 - 1, 2**63, -(2**70), 0.5, 1e308, "", [], {}, [[]], {"": []}),
    *(
        CODE,
        f"x={CODE}",
        f"a\n    {CODE}",
        f"'+{CODE}+'",
        f"Mul({CODE}, 2)",
        "Symbol('s77')",
        "u999999999",
        "__class__",
    ),
    *("torch.os.system", "torch.ops.aten.from_file.default", "torch.ops.aten.neg.default", "_operator.attrgetter"),
    *(
        "torch.ops.aten.as_strided.default",
        "torch.ops.aten.embedding.default",
        "torch.ops.higher_order.cond",
        "math.trunc",
    ),
    *(
        "opaque_obj_0",
        "tensor_0",
        "weight_1",
        "../weights/weight_0",
        "Infinity",
        "cuda",
        "self",
        "forward",
        "x",
        "relu",
    ),
    *({"as_int": 0}, {"as_expr": {"expr_str": CODE}}, {"as_tensor": {"name": "x"}}, {"as_operator": "torch.os.system"}),
)
RECORDS = (
    *("data/constants/opaque_obj_0", "data/weights/model.pt", "data/constants/model.pt", "data/weights/weight_9"),
    *("data/sample_inputs/model.pt", "data/aotinductor/model/model.so", "extra/x", "models/other.json", "version"),
    *(
        "serialized_state_dict.pt",
        "data.pkl",
        "byteorder",
        ".data/version",
        "archive_format",
        "data/constants/tensor_0",
    ),
)
BAD = ("acted", "signal", "wrote", "other error")


@cache
def _bases() -> tuple[bytes, ...]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return (saved(program()), *(saved(PROGRAMS[name].program()) for name in BASES))


# ------------------------------------------------------------------------------------ mutations


def drawn(number: int, seed: int) -> bytes:
    """The file of this number."""
    random = np.random.default_rng((seed, number))
    blob = _bases()[int(random.integers(len(_bases())))]
    for _ in range(int(random.choice([1, 1, 1, 2, 4]))):
        with contextlib.suppress(Exception):  # what was changed before need not be an archive
            blob = (_in_bytes, _in_json, _in_records)[number % 3](blob, random)
    return blob


def _in_bytes(blob: bytes, random: np.random.Generator) -> bytes:
    """Of the archive, or of one of its records."""
    if random.random() < 0.4:
        return mutated(blob, random)
    archive = Archive(blob)
    names = [name for name, data in archive.records.items() if len(data) >= 8]
    if names and random.random() < 0.3:
        name = names[int(random.integers(len(names)))]
        archive.records[name] = mutated(archive.records[name], random)
        return archive.data()
    name = list(archive.json)[int(random.integers(len(archive.json)))]
    archive.records[name] = mutated(json.dumps(archive.json.pop(name)).encode(), random)
    return archive.data()


def _places(data: Any) -> Iterator[tuple[Any, Any]]:
    """Every container with each of its keys."""
    waiting = [data]
    while waiting:
        each = waiting.pop()
        inside = list(each.items()) if isinstance(each, dict) else list(enumerate(each))
        yield from ((each, key) for key, _ in inside)
        waiting += [value for _, value in inside if isinstance(value, (dict, list))]


def _in_json(blob: bytes, random: np.random.Generator) -> bytes:
    """A value is another one, one from elsewhere, or not there."""
    archive = Archive(blob)
    names = sorted(archive.json, key=lambda name: "config" in name)
    data = archive.json[names[0] if random.random() < 0.8 else names[int(random.integers(len(names)))]]
    places = list(_places(data))
    at, key = places[int(random.integers(len(places)))]
    match int(random.integers(6)):
        case 0:
            del at[key]
        case 1:
            other, where = places[int(random.integers(len(places)))]
            at[key] = json.loads(json.dumps(other[where]))
        case 2 if isinstance(at, list):
            at.insert(key, at[key])
        case 3 if isinstance(at[key], str):
            cut = int(random.integers(len(at[key]) + 1))
            at[key] = at[key][:cut] + str(VALUES[int(random.integers(len(VALUES)))]) + at[key][cut:]
        case 4 if isinstance(at[key], int):
            at[key] = int(at[key]) + int(random.integers(-3, 4))
        case _:
            at[key] = VALUES[int(random.integers(len(VALUES)))]
    return archive.data()


def _in_records(blob: bytes, random: np.random.Generator) -> bytes:
    """One more, one less, two swapped, one renamed, one compressed; or one of the archives that are written by hand."""
    archive = Archive(blob)
    names = list(archive.records)
    one, other = (names[int(random.integers(len(names)))] for _ in range(2))
    match int(random.integers(6)):
        case 0:
            archive.records[RECORDS[int(random.integers(len(RECORDS)))]] = PICKLED
        case 1:
            del archive.records[one]
        case 2:
            archive.records[one], archive.records[other] = archive.records[other], archive.records[one]
        case 3:
            archive.records[RECORDS[int(random.integers(len(RECORDS)))]] = archive.records.pop(one)
        case 4:
            archive.how = _compressed
        case _:
            changes = [change for some in HOSTILE.values() for change in some.values()]
            changes[int(random.integers(len(changes)))](archive)
    return archive.data()


def _compressed(data: bytes) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as given, zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as taken:
        for name in given.namelist():
            taken.writestr(name, given.read(name))
    return made.getvalue()


# ------------------------------------------------------------------------------------ what becomes of them


def outcome(blob: bytes, folder: Path, explain: bool) -> str:
    """What the reader makes of a file, and what its process did."""
    path = folder / "model.pt2"
    path.write_bytes(blob)

    def prepare() -> Work:
        os.chdir(folder)
        did = watched(evaluating=False)
        return lambda: json.dumps(_ran(path, did)).encode()

    try:
        answer, did = json.loads(confined(prepare, LIMITS, str(path)))
        if explain:
            found(Request(str(path), ("xnnpack",), None, Limits(60.0, 2048)), 1)
    except UsageError as error:
        answer, did = _ended(str(error)), []
    path.unlink()
    if left := os.listdir(folder):
        (folder / left[0]).unlink()
        return f"wrote: {left}"
    return f"acted: {did[0]}" if did else str(answer)


def _ran(path: Path, did: Callable[[], list[str]]) -> tuple[str, list[str]]:
    """In the process: the file is refused, or read and run."""
    did()
    try:
        model = load_model(str(path))
    except UsageError:
        return "refused", did()
    try:
        with torch.no_grad():
            for given in model.inputs:
                model.program.module()(*given.args, **given.kwargs)
    except Exception:  # noqa: BLE001  (of a program that does not fit together)
        return "read, does not run", did()
    return "ran", did()


def _ended(text: str) -> str:
    kinds = {"signal": "ended by signal", "no end": "no answer in", "memory": "needs more than", "refused": r"\.pt2: "}
    return next((f"{kind}: {text}" for kind, part in kinds.items() if re.search(part, text)), f"other error: {text}")


def outcomes(first: int, count: int, seed: int) -> list[tuple[int, str]]:
    """Number and outcome of files of these numbers."""
    with tempfile.TemporaryDirectory() as folder:
        numbers = range(first, first + count)
        return [(number, outcome(drawn(number, seed), Path(folder), number % EXPLAINED == 0)) for number in numbers]


def _prepare() -> None:
    """What the processes of the files share."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    with tempfile.TemporaryDirectory() as folder:
        for blob in _bases():
            (path := Path(folder, "model.pt2")).write_bytes(blob)
            _ran(path, list)


def _all(jobs: Sequence[tuple[int, int, int]], processes: int) -> Iterator[tuple[int, str]]:
    with multiprocessing.get_context("fork").Pool(processes) as pool:
        for some in pool.starmap(outcomes, jobs, chunksize=1):
            yield from some


def main() -> None:
    """Print how often each outcome came, and the files that may not be."""
    parser = argparse.ArgumentParser(description="Mutated .pt2 files through the reader of assay explain.")
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("-n", type=int, default=1, help="processes")
    options = parser.parse_args()
    _prepare()
    size = 50
    jobs = [(first, min(size, options.count - first), options.seed) for first in range(0, options.count, size)]
    told = list(_all(jobs, options.n))
    print(f"{len(told)} files of seed {options.seed}")
    for kind, count in Counter(text.partition(":")[0] for _, text in told).most_common():
        print(f"{kind:34}{count:7}")
    bad = [f"{number}: {text}" for number, text in told if text.startswith(("no end", "memory", *BAD))]
    print(*bad, sep="\n", end="\n" * bool(bad))
    sys.exit(any(text.startswith(BAD) for _, text in told))


if __name__ == "__main__":
    main()
