"""Hostile `.pte` files through `assay run`: what becomes of them, none of which may end or hang the command.

Run from the repository:

    PYTHONPATH=tests/shared python benchmarks/hostile_files.py --count 10000 --seed 0 -n 2

Every file calls one operator: of the list that files may call, or (one in ten) any that torch has. Its arguments are
of the kinds of the operator's schema, in odd sizes, types and orders; every fifth file is then damaged byte by byte.
Each runs as the command runs it, in a process of its own. The last lines are how often each outcome came.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import re
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import torch
from hostile import mutated
from torch._ops import OpOverload

from npu_assay.conformance.backend.loading import by_delegate
from npu_assay.conformance.common.errors import UsageError
from npu_assay.conformance.isolation.limits import Limits
from npu_assay.conformance.pte.run import Request, run
from npu_assay.partitioners.exir.pte import (
    Allocation,
    BoolList,
    Chain,
    DoubleList,
    FormatError,
    IntList,
    KernelCall,
    Operator,
    OptionalTensorList,
    Plan,
    Program,
    Tensor,
    TensorList,
    write,
)
from npu_assay.partitioners.exir.pte.allowed import ALLOWED
from npu_assay.partitioners.exir.pte.primitives import PRIMITIVES
from npu_assay.partitioners.exir.pte.schema import DTYPES

LIMITS = Limits(10.0, 512)
ARENA = 2**16
INTEGERS = (0, 1, 2, 3, -1, -2, 5, 64, 2**15, 2**31, 2**62, -(2**63), 2**63 - 1)
DOUBLES = (0.0, 1.0, -1.0, 0.5, 1e-300, 1e300, float("inf"), float("-inf"), float("nan"))
TEXTS = ("", "none", "mean", "floor", "trunc", "tanh", "/etc/hostname", "\x1b[31m", "\u202e", "cuda:0")
OUTCOMES = {
    "not a valid .pte file": r"not a valid \.pte file",
    "operator that files may not call": r"one that a \.pte file may call",
    "signal": r"its process was ended by signal",
    "no end": r"no answer in",
    "memory": r"needs more than|memory in all|memory that there is",
    "no answer": r"its process",
    "other error": r"^[^:]*: [A-Z]\w+(Error|Exception|Exit)\b",
}
"""By what the message says; what fits none of them is a program that does not fit together."""


class Draft:
    """The values of one program, while its arguments are drawn."""

    def __init__(self, random: np.random.Generator) -> None:
        self.random, self.values = random, list[Any]()
        self.common = self.sizes()

    def pick(self, choices: Sequence[Any]) -> Any:
        return choices[int(self.random.integers(len(choices)))]

    def add(self, value: Any) -> int:
        self.values.append(value)
        return len(self.values) - 1

    def sizes(self) -> tuple[int, ...]:
        """Of a small tensor."""
        return tuple(self.pick((1, 2, 3, 4)) for _ in range(self.pick((0, 1, 2, 2, 3, 4, 4, 5))))

    def tensor(self, written: bool = False) -> int:
        """Mostly a small float tensor; else of odd types, orders, sizes and places."""
        likely = self.random.random() < 0.9
        dtype = (
            self.pick((torch.float32,) * 12 + (torch.int64, torch.bool, torch.int8))
            if likely
            else self.pick(tuple(DTYPES))
        )
        sizes = self.common if self.random.random() < 0.8 else self.sizes()
        if not likely:
            sizes = tuple(
                self.pick((0, 1, 2, 7, 2**10, 2**20, 2**31 - 1)) for _ in range(self.pick((0, 1, 2, 3, 9, 16)))
            )
        order = tuple(range(len(sizes))) if likely else tuple(map(int, self.random.permutation(len(sizes))))
        size = prod(sizes) * dtype.itemsize
        fits = size <= ARENA // 2
        place = Allocation(1, 64 * int(self.random.integers(ARENA // 128))) if fits else None
        if written:
            dynamism = self.pick(("static", "bound", "unbound", "unbound"))
            return self.add(Tensor(dtype, sizes, order, None, None if dynamism == "unbound" else place, dynamism))
        data = self.random.bytes(size) if fits and self.random.random() < 0.7 else None
        if data is not None and dtype == torch.bool:
            data = bytes(each & 1 for each in data)
        if data is not None and dtype == torch.int64 and self.random.random() < 0.8:
            data = self.random.integers(0, 3, size // 8).astype("<i8").tobytes()
        if data is not None and dtype == torch.float32 and self.random.random() < 0.8:
            data = self.random.standard_normal(size // 4).astype("<f4").tobytes()
        return self.add(Tensor(dtype, sizes, order, data, None if data is not None else place))

    def integer(self) -> int:
        return self.add(int(self.pick(INTEGERS[:6] if self.random.random() < 0.8 else INTEGERS)))

    def several(self, make: Callable[[], int]) -> tuple[int, ...]:
        return tuple(make() for _ in range(self.pick((0, 1, 2, 2, 3, 4, 6))))

    def argument(self, kind: str, written: bool) -> int:
        """A value for a parameter of this type of torch's; now and then one of another."""
        if self.random.random() < 0.03:
            kind = self.pick(("Tensor", "int", "float", "str", "Optional[bool]"))
        if kind.startswith("Optional[") and self.random.random() < 0.4:
            return self.add(None)
        kind = kind.removeprefix("Optional[").removesuffix("]") if kind.startswith("Optional[") else kind
        makers: dict[str, Callable[[], Any]] = {
            "List[Tensor]": lambda: TensorList(self.several(lambda: self.tensor(written))),
            "List[Optional[Tensor]]": lambda: OptionalTensorList(self.several(lambda: self.pick((-1, self.tensor())))),
            "List[int]": lambda: IntList(self.several(self.integer)),
            "List[float]": lambda: DoubleList(tuple(self.pick(DOUBLES) for _ in range(self.pick((0, 1, 2))))),
            "List[bool]": lambda: BoolList(tuple(self.pick((True, False)) for _ in range(self.pick((0, 1, 2, 3))))),
            "float": lambda: self.pick(DOUBLES),
            "bool": lambda: self.pick((True, False)),
            "number": lambda: self.pick((*INTEGERS, *DOUBLES)),
            "str": lambda: self.pick(TEXTS),
        }
        if kind == "Tensor":
            return self.tensor(written)
        return self.add(makers[kind]()) if kind in makers else self.integer()


@cache
def _names() -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names that files may call, and all others that torch has."""
    inside = tuple(sorted({*ALLOWED, *PRIMITIVES}))
    every = {name if "." in name else f"{name}.default" for name in torch._C._dispatch_get_all_op_names()}
    return inside, tuple(sorted(every - {*inside}))


def _schema(name: str) -> Any:
    """Torch's schema of an operator, or None of a primitive."""
    namespace, _, rest = name.partition("::")
    base, _, overload = rest.partition(".")
    op = getattr(getattr(getattr(torch.ops, namespace), base, None), overload, None)
    return op._schema if isinstance(op, OpOverload) else None


def drawn(number: int, seed: int) -> tuple[str, bytes]:
    """The name of the operator that the file of this number calls, and the file."""
    random = np.random.default_rng((seed, number))
    inside, outside = _names()
    draft = Draft(random)
    name = inside[number % len(inside)] if random.random() < 0.9 else draft.pick(outside)
    while True:
        try:
            blob = write(_program(name, draft))
        except FormatError:  # of a tensor too large for the format: draw again
            draft.values.clear()
            continue
        return name, mutated(blob, random) if number % 5 == 4 else blob


def _program(name: str, draft: Draft) -> Program:
    """One call of the operator, with arguments of the kinds that it takes."""
    schema = _schema(name)
    if schema is None:
        count = PRIMITIVES[name][1] if name in PRIMITIVES else 0
        ids = [draft.argument(draft.pick(("int", "Tensor", "number", "List[int]")), True) for _ in range(count or 3)]
    else:
        ids = [draft.argument(str(each.type), each.is_out) for each in schema.arguments]
        outs = [index for index, each in zip(ids, schema.arguments, strict=True) if each.is_out]
        ids += outs or [draft.tensor(True) for _ in schema.returns]
    base, _, overload = name.partition(".")
    results = tuple(index for index in ids[-2:] if isinstance(draft.values[index], Tensor))
    values = tuple(draft.values)
    inputs = tuple(i for i, v in enumerate(values) if isinstance(v, Tensor) and v.data is None and i not in ids[-2:])
    operator = Operator(base, "" if overload == "default" else overload)
    chain = Chain((KernelCall(0, tuple(ids)),))
    return Program((Plan("forward", values, inputs, results, (chain,), (operator,), (), (0, ARENA)),))


def outcome(blob: bytes, folder: Path) -> str:
    """What `assay run` makes of a file. Anything but an answer or one UsageError is raised."""
    model = folder / "model.pte"
    model.write_bytes(blob)
    try:
        run(Request(model, (), "forward", 0, None, limits=LIMITS))
    except UsageError as error:
        message = str(error).removeprefix(f"{model}")
        return next((name for name, pattern in OUTCOMES.items() if re.search(pattern, message)), "does not fit")
    return "ran"


def outcomes(first: int, count: int, seed: int) -> list[tuple[str, str]]:
    """Operator and outcome of files of these numbers."""
    with tempfile.TemporaryDirectory() as folder:
        files = (drawn(number, seed) for number in range(first, first + count))
        return [(name, outcome(blob, Path(folder))) for name, blob in files]


def _prepare() -> None:
    """What the processes of the files share."""
    torch.set_num_threads(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        by_delegate()


def main() -> None:
    """Print how often each outcome came, and the operators that ended their process."""
    parser = argparse.ArgumentParser(description="Hostile .pte files through assay run.")
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("-n", type=int, default=1, help="processes")
    options = parser.parse_args()
    _prepare()
    size = 50
    jobs = [(first, min(size, options.count - first), options.seed) for first in range(0, options.count, size)]
    found = list[tuple[str, str]]()
    with contextlib.ExitStack() as stack:
        pool = stack.enter_context(multiprocessing.get_context("fork").Pool(options.n))
        for some in pool.starmap(outcomes, jobs, chunksize=1):
            found += some
    counts = Counter(kind for _, kind in found)
    print(f"{len(found)} files of seed {options.seed}, {len({name for name, _ in found})} operators")
    for kind, count in counts.most_common():
        print(f"{kind:34}{count:7}")
    for kind in ("signal", "no end", "no answer", "other error"):
        names = Counter(name for name, each in found if each == kind)
        if names:
            print(f"{kind}: " + ", ".join(f"{name} {count}" for name, count in sorted(names.items())))


if __name__ == "__main__":
    main()
