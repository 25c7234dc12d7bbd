"""The model that is to be explained: from a `.pt2` file or a factory; its inputs, and its quantized form."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from textwrap import shorten
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.export import ExportedProgram

from npu_assay.conformance.backend.loading import load_object
from npu_assay.conformance.common.describing import message, own_place, type_name
from npu_assay.conformance.common.errors import UsageError
from npu_assay.conformance.common.npy import FILE, NpyError, npy_arrays, npy_names
from npu_assay.conformance.explain.archives import read_program
from npu_assay.conformance.explain.coded import is_coded
from npu_assay.conformance.explain.costs import values
from npu_assay.conformance.explain.inputs import (
    Given,
    Inputs,
    inputs_of,
    named,
    nested,
    not_a_number,
    others,
    random_inputs,
    sample,
)
from npu_assay.conformance.explain.layers import Constants, constants_of
from npu_assay.conformance.explain.lowered import operators_in
from npu_assay.conformance.explain.named import names_file
from npu_assay.conformance.explain.observing import decided, folded, is_own
from npu_assay.conformance.explain.origins import marked, origin_of, place_of
from npu_assay.conformance.run.outline import NO_WORK
from npu_assay.files import read_regular
from npu_assay.partitioners.exir.decompose import with_plain_tensors
from npu_assay.partitioners.exir.ops import target_name

RANDOM = "random"
WIDE_CURE = "export module.float() with inputs of float32, or put .float() after what has to be exact"
OPEN = "the model has dynamic sizes; quantized here it has those of its example inputs, and is explained with these"
LONGEST = 300  # characters of an error
SENTENCES = re.compile(rf".{{,{LONGEST}}}$|.{{1,{LONGEST}}}[.!?](?=\s)")
NAMELESS = re.compile(r"arr_\d+")
"""What numpy calls an array that is given no name."""
SAMPLES = 4  # random inputs that calibrate
EXPECTED = "a pair (module, example inputs) or (module, tuple, dict by name)"
EXAMPLES = "a tensor, a tuple, a dict by name, or a tuple and a dict"


@dataclass(frozen=True)
class Model:
    """A model in torch's export form. inputs: those that it runs on, the example first."""

    name: str
    program: ExportedProgram
    inputs: tuple[Inputs, ...]

    @property
    def is_open(self) -> bool:
        """Whether an input has a size that is known at run time only."""
        values = (node.meta.get("val") for node in self.program.graph.nodes if node.op == "placeholder")
        return any(not isinstance(size, int) for x in values if isinstance(x, Tensor) for size in x.shape)

    @property
    def is_quantized(self) -> bool:
        """Whether it has quantize and dequantize nodes already, PT2E's or those of torchao's `quantize_`."""
        calls = [node for node in self.program.graph.nodes if node.op == "call_function"]
        return any(target_name(node.target) in NO_WORK - {"getitem"} or is_coded(node) for node in calls)


def model_of(program: ExportedProgram, inputs: Sequence[Given] | None = None) -> Model:
    """A program as a model that runs on these inputs, or on random ones. Raises UsageError for others."""
    program = with_plain_tensors(program)
    return Model("program", program, _all(program, inputs) if inputs else (random_inputs(program, 0),))


def _all(program: ExportedProgram, given: Sequence[Given]) -> tuple[Inputs, ...]:
    return tuple(inputs_of(program, each) for each in given)


def load_model(spec: str) -> Model:
    """The model of a `.pt2` file, or of `module:factory`. Raises UsageError."""
    if names_file(spec):
        return _from_file(Path(spec))
    found = load_object("model", spec)
    if callable(found) and not isinstance(found, nn.Module):
        try:
            found = found()
        except Exception as error:
            raise UsageError(f"model {spec!r}: {_told(error)}") from error
    return Model(spec, *_exported(spec, found))


def _from_file(path: Path) -> Model:
    program = with_plain_tensors(read_program(path))
    try:
        return Model(path.name, program, (random_inputs(program, 0),))
    except Exception as error:  # torch raises anything for inputs that nobody can have
        raise UsageError(f"{path}: no inputs can be made for it: {_told(error)}") from error


def _exported(spec: str, found: object) -> tuple[ExportedProgram, tuple[Inputs, ...]]:
    if isinstance(found, ExportedProgram):
        return with_plain_tensors(found), (random_inputs(found, 0),)
    if not isinstance(found, tuple) or len(found) not in (2, 3) or not isinstance(found[0], nn.Module):
        kind = type(found).__name__
        raise UsageError(f"model {spec!r}: found {kind}, expected {EXPECTED}, or an ExportedProgram")
    module, *given = found
    inputs = _example(spec, given)
    try:
        with torch.no_grad():
            program = with_plain_tensors(torch.export.export(module.eval(), inputs.args, dict(inputs.kwargs)))
    except Exception as error:
        raise UsageError(f"model {spec!r}: torch.export cannot export it: {_told(error)}") from error
    return program, (inputs_of(program, inputs),)


def _example(spec: str, given: Sequence[object]) -> Inputs:
    """The example inputs that a factory gives beside its module: one collection of them, or a tuple and a dict."""
    kinds = [(Tensor, tuple, list, Mapping)] if len(given) == 1 else [(tuple,), (Mapping,)]
    for each, kind in zip(given, kinds, strict=True):
        if not isinstance(each, kind):
            raise UsageError(f"model {spec!r}: example inputs: found {type(each).__name__}, expected {EXAMPLES}")
    last = given[-1]
    if isinstance(last, Mapping):
        return Inputs(given[0] if isinstance(given[0], tuple) else (), dict(last))
    return Inputs(tuple(last) if isinstance(last, (tuple, list)) else (last,))


def _told(error: Exception) -> str:
    """An error in one line: the whole sentences that fit, without torch's own frames, and the user's line."""
    text = " ".join(message(error).partition("\nCaused by: (")[0].split())
    short = SENTENCES.match(text)
    return f"{type_name(error)}: {short[0] if short else shorten(text, LONGEST, placeholder=' ...')}{own_place(error)}"


# ------------------------------------------------------------------------------------ calibration


def samples_of(model: Model, source: str) -> tuple[Inputs, ...]:
    """Inputs to calibrate with, or to run on: random ones, or those of an .npz file. Raises UsageError.

    The file has one array for each input, by the names of inputs or in their order, with the samples along a first axis
    of its own.
    """
    example = model.inputs[0]
    if source == RANDOM:
        return (example, *(others(example, seed) for seed in range(1, SAMPLES)))
    wanted = {n: x for n, x in zip(named(model.program), example.leaves, strict=True) if isinstance(x, Tensor)}
    arrays = _arrays(Path(source), list(wanted))
    if len(arrays) != len(wanted):
        names = ", ".join(wanted)
        raise UsageError(f"{source}: found {len(arrays)} arrays, expected {len(wanted)}, one for each input: {names}")
    pairs = zip(arrays, wanted.values(), strict=True)
    columns = [_samples(source, number, a, x) for number, (a, x) in enumerate(pairs)]
    counts = {len(column) for column in columns}
    if len(counts) != 1:
        raise UsageError(f"{source}: found {' and '.join(map(str, sorted(counts)))} samples, expected as many of each")
    return tuple(_placed(model.program, example, row) for row in zip(*columns, strict=True))


def _arrays(path: Path, wanted: Sequence[str]) -> list[Tensor]:
    """The arrays of a file in the order of the inputs, where it has their names; in its own, where they have none."""
    try:
        data = read_regular(path, FILE)
        found = [torch.from_numpy(array.copy()) for array in npy_arrays(data)]
        names = npy_names(data)
    except (NpyError, TypeError) as error:
        raise UsageError(f"{path}: {error}") from error
    except OSError as error:
        hint = "" if path.suffix else f"; expected an .npz file, or {RANDOM!r}"
        raise UsageError(f"{path}: cannot be read: {error.strerror or error}{hint}") from error
    known = dict(zip(names, found, strict=True)) if len(names) == len(found) else {}
    if set(known) == set(wanted):
        return [known[name] for name in wanted]
    if len(known) == len(wanted) > 1 and not all(map(NAMELESS.fullmatch, known)):
        hint = "or none, for their order: np.savez(path, first, second)"
        raise UsageError(f"{path}: found arrays {', '.join(known)}, expected the names {', '.join(wanted)}, {hint}")
    return found


def _samples(source: str, number: int, array: Tensor, x: Tensor) -> list[Tensor]:
    """The samples in an array, in the type of the input."""
    if array.shape[1:] != x.shape or not len(array):
        found, expected = list(array.shape), ["samples", *x.shape]
        hint = ": array[:, None] has an axis for them" if array.shape[1:] == x.shape[1:] and x.shape[:1] == (1,) else ""
        text = f"{source}: array {number}: found sizes {found}, expected {expected}{hint}"
        raise UsageError(text.replace("'", ""))
    columns = [each.to(x.dtype) for each in array]
    for place, (given, taken) in enumerate(zip(array, columns, strict=True)):
        wrong, wanted = not_a_number(taken), "finite numbers"
        if not wrong and not taken.dtype.is_floating_point and not torch.equal(taken.to(given.dtype), given):
            wrong, wanted = f"{given[taken.to(given.dtype) != given][0].item()}", f"numbers of {x.dtype}"
        if wrong:
            where = f"{source}: array {number}, sample {place}, counted from 0"
            raise UsageError(f"{where}: found {wrong}, expected {wanted}".replace("torch.", ""))
    return columns


def _placed(program: ExportedProgram, example: Inputs, tensors: Sequence[Tensor]) -> Inputs:
    """The example inputs with these tensors."""
    left = iter(tensors)
    return nested(program, [next(left) if isinstance(x, Tensor) else x for x in example.leaves])


@dataclass(frozen=True)
class Quantized:
    """A model after PT2E: exported, and its constants before they were codes, by the program's operators.

    warnings: what the backend's quantizer warned of.
    """

    program: ExportedProgram
    constants: Constants
    warnings: tuple[str, ...]


def quantize(model: Model, quantizer: Any, samples: Sequence[Given]) -> Quantized:
    """The model quantized after training, by PT2E. Raises UsageError where torchao is not installed."""
    try:
        from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e  # optional
    except ModuleNotFoundError as error:
        raise UsageError(
            "--calibrate needs torchao, which is not installed: pip install 'npu-assay[quantize]'"
        ) from error
    with torch.no_grad(), warnings.catch_warnings(record=True) as caught, _wide_told(model.program):
        warnings.simplefilter("always")
        prepared = prepare_pt2e(model.program.module(), quantizer)
        for number, one in enumerate(_all(model.program, samples)):
            with sample(number, calibrates=True):
                prepared(*one.args, **one.kwargs)
        told = decided(prepared)
        constants = constants_of(prepared)
        converted = convert_pt2e(prepared)
        with marked(converted.graph):
            program = torch.export.export(converted, model.inputs[0].args, dict(model.inputs[0].kwargs))
    told += [("", text) for text in dict.fromkeys(str(each.message) for each in caught if is_own(each))]
    told += [("", text) for text in (OPEN if model.is_open else "", _of_wide(model.program)) if text]
    names = {node.name: origin_of(node) or node.name for node in operators_in(program.graph)}
    by_operator = {name: constants[before] for name, before in names.items() if before in constants}
    return Quantized(program, by_operator, tuple(folded(told)))


@contextmanager
def _wide_told(program: ExportedProgram) -> Iterator[None]:
    """What torchao asserts of types that it cannot quantize is told of the operator. Raises ValueError."""
    try:
        yield
    except (AssertionError, RuntimeError) as error:
        if text := _of_wide(program):
            raise ValueError(text) from error
        raise


def _of_wide(program: ExportedProgram) -> str:
    """That quantizers leave float64 alone or refuse it, at the first operator of it; "" where there is none."""
    wide = next((node for node in operators_in(program.graph) if _is_wide(node)), None)
    return "" if wide is None else f"quantizers take float32: found float64, {place_of(wide)}; {WIDE_CURE}"


def _is_wide(node: fx.Node) -> bool:
    tensors = (x for each in (node, *node.all_input_nodes) for x in values(each))
    return any(x.dtype == torch.float64 for x in tensors)
