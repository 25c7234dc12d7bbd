"""The smallest part of a model that still shows something: one operator of it, as a script of its own."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain
from math import prod
from types import MappingProxyType
from typing import Any, NoReturn

import torch
from torch import fx
from torch.export import ExportedProgram

from npu_assay.conformance.cases.boundaries.knob import subject
from npu_assay.conformance.cases.make import SUBJECT
from npu_assay.conformance.explain.asking import Asking
from npu_assay.conformance.explain.causes import Causes
from npu_assay.conformance.explain.lowered import Watched, as_edge, computing, lower, operators_of
from npu_assay.conformance.explain.naming import is_meant, unknown, written_as
from npu_assay.conformance.explain.origins import marked, origin_of
from npu_assay.conformance.explain.reasons import LEFT_ALONE, NOT_QUANTIZED
from npu_assay.conformance.explain.record import Cause, Operator
from npu_assay.conformance.explain.single import Unspoken, alone
from npu_assay.conformance.explain.single import quantized as coded
from npu_assay.conformance.explain.trying import Trying
from npu_assay.conformance.explain.view import place, title
from npu_assay.conformance.isolation.forking import fork
from npu_assay.conformance.programs.build import model_inputs
from npu_assay.conformance.programs.graph import Fill, Graph, Quant, Value
from npu_assay.conformance.repro.model import FEW, input_sources, model_source
from npu_assay.conformance.run.partitioning import prepared
from npu_assay.conformance.table import load_table
from npu_assay.partitioners.exir import (
    Backend,
    EdgeCompileConfig,
    EdgeProgramManager,
    PartitionResult,
    run_program,
    to_backend,
    to_edge_transform_and_lower,
)

WITHIN = 60  # seconds for one operator
LINES = 20  # of a script
TAKEN = "its operators are taken where they are quantized"
OTHERWISE = "no model of one operator has this reason"
REGISTER = "self.register_buffer("
OFF = 1.01  # steps of the codes of a result by which it may differ from torch's

_Group = tuple[str, str, Iterable[tuple[Operator, Graph]]]
"""A cause ("" where none is asked for), why its operators may not show it alone, and they as models of their own."""


@dataclass(frozen=True)
class Reduced:
    """An operator that shows it by itself, as a script; None and "" where none does. told: of it and those before."""

    operator: Operator | None
    script: str
    told: tuple[str, ...]


class _Asked(Exception):
    """A partitioner has been asked; what it would say does not matter."""

    def __init__(self, program: ExportedProgram) -> None:
        super().__init__()
        self.program = program


class _Listening(Watched):
    """Stops a lowering where the partitioner would be asked."""

    def partition(self, exported_program: ExportedProgram) -> PartitionResult:
        """Nothing: raises _Asked."""
        raise _Asked(exported_program)


def edge_of(exported: ExportedProgram, backend: Backend) -> ExportedProgram:
    """The program that a backend's partitioner is asked about first."""
    listening, passes = _Listening(backend.partitioner()), list(backend.passes)

    def lowering(config: EdgeCompileConfig) -> EdgeProgramManager:
        return to_edge_transform_and_lower(exported, passes, [listening], compile_config=config)

    try:
        with marked(exported.graph), torch.no_grad():
            as_edge(lowering)
    except _Asked as asked:
        return asked.program
    raise AssertionError("a lowering that asked nobody")


def reduce(
    exported: ExportedProgram,
    backend: Backend,
    spec: str,
    what: str,
    name: str | None,
    *,
    quantizer: Callable[[], Any] | None = None,
) -> Reduced:
    """The first operator that shows it alone.

    what: a key of SHOWS. name: of an operator or a module, as users write it (`is_meant`), None for any. quantizer:
    makes the one that the program was quantized with, None where it came as it is. Raises UsageError for a name that
    means none.
    """
    asking = Asking(backend, load_table(backend.table))
    if name is not None:
        _check_name(exported, backend, name)
    hidden: list[str] = []
    groups: Iterable[_Group] = [("", "", _parts(exported, backend, name))]
    if what == "undelegated":
        groups = _left_out(exported, asking, name, None if quantizer is None else Trying(backend, quantizer))
    for cause, why, parts in groups:
        for operator, graph in parts:
            for simpler in _simpler(graph):
                if SHOWS[what](simpler, asking):
                    told = (*hidden, place(operator), *filter(None, [cause]))
                    return Reduced(operator, script(simpler, operator, spec, what), told)
        hidden += [f"not shown alone: {cause}: {why}"] if cause else []
    return Reduced(None, "", tuple(hidden))


def _check_name(exported: ExportedProgram, backend: Backend, name: str) -> None:
    operators = [(operator, written) for _, operator, written in _operators(exported, edge_of(exported, backend))]
    if not any(is_meant(name, *each) for each in operators):
        raise unknown(name, operators)


def _operators(exported: ExportedProgram, edge: ExportedProgram) -> list[tuple[fx.Node, Operator, str]]:
    """The operators of an edge program, with their nodes and the operators of the exported one that they were."""
    nodes = computing(edge)
    written = [written_as(exported.graph, node) for node in nodes]
    return list(zip(nodes, operators_of(edge, {}, edge), written, strict=True))


def _parts(exported: ExportedProgram, backend: Backend, name: str | None) -> Iterator[tuple[Operator, Graph]]:
    """Every operator of that name as a model of its own, the dearest first; the partitioner is not asked."""
    program = edge_of(exported, backend)
    found = _operators(exported, program)
    if name is not None:
        found = sorted((each for each in found if is_meant(name, *each[1:])), key=lambda each: -each[1].macs)
    for node, operator, _ in found:
        with suppress(Unspoken):
            yield operator, alone(program, node)


def _left_out(exported: ExportedProgram, asking: Asking, meant: str | None, trying: Trying | None) -> Iterator[_Group]:
    """The root causes in the order of `assay explain`, each with its operators, the dearest first.

    Of an operator that several were made of, that comes before they do.
    """
    causes = Causes(lower(exported, asking.backend), asking, trying is not None, trying=trying)
    for number, cause in enumerate(causes.found()[1], 1):
        roots = sorted((causes.operators[name] for name in cause.roots), key=lambda one: -one.macs)
        if meant is not None:
            roots = [one for one in roots if is_meant(meant, one, written_as(exported.graph, causes.nodes[one.name]))]
        if roots:
            whole = (each for one in roots for each in _written(causes, one, cause))
            parts = chain(whole, ((one, graph) for one in roots for graph in causes.smallest(one.name, cause.code)))
            why = TAKEN if cause.code == NOT_QUANTIZED.code else OTHERWISE
            yield f"cause {number}, {title(cause, causes.operators)}", why, parts


def _written(causes: Causes, one: Operator, cause: Cause) -> Iterator[tuple[Operator, Graph]]:
    """What the user wrote that an operator is a part of, where that is more than the operator and a script says it."""
    written = origin_of(causes.nodes[one.name])
    roots = [name for name in cause.roots if origin_of(causes.nodes[name]) == written]
    if written is not None and (len(roots) > 1 or cause.sentence == LEFT_ALONE.sentence):
        graph = causes.whole(written)
        for form in () if graph is None else (coded(graph), graph):
            operator = replace(one, operator=subject(form).op)
            if len(script(form, operator, "", "").splitlines()) <= LINES:
                yield operator, form


def _simpler(graph: Graph) -> Iterator[Graph]:
    """The model with random numbers in large constants, which a line can say, then as it is."""
    yield replace(graph, values=tuple(map(_random, graph.values)))
    yield graph


def _random(value: Value) -> Value:
    large = value.constant and prod(value.shape) > FEW
    return replace(value, fill=Fill(seed=len(value.shape))) if large else value


# ------------------------------------------------------------------------------------ what shows


def _undelegated(graph: Graph, asking: Asking) -> bool:
    """The partitioner leaves it out."""
    return not asking.takes(graph) and not asking.refused(graph)


def _wrong(graph: Graph, asking: Asking) -> bool:
    """It runs, delegated, and a result is off by more than a step of its codes or a millionth of the largest number."""
    with suppress(Exception):  # a backend may raise anything, which is no number
        return _is_off(graph, asking)
    return False


def _is_off(graph: Graph, asking: Asking) -> bool:
    """As `_wrong`; raises what the backend raises."""
    program = prepared(graph, asking.backend, asking.table.preserve, asking.table.mark)
    backend, inputs = asking.backend, model_inputs(graph)
    lowered = to_backend(program, backend.partitioner(), details={backend.details.__name__: backend.details})
    given = run_program(lowered, inputs, {backend.details.__name__: backend.runtime})
    wanted = run_program(lowered, inputs, original_modules=True)
    quant = next(step.quant for step in graph.steps if step.name == SUBJECT)
    for x, y in zip(given, wanted, strict=True):
        if not y.numel():
            continue
        limit = 1e-6 * float(y.double().abs().max()) if quant is None else OFF * _step(quant)
        if float((x.double() - y.double()).abs().nan_to_num(torch.inf).max()) > limit:
            return True
    return False


def _step(quant: Quant) -> float:
    return max(quant.scale) if isinstance(quant.scale, tuple) else quant.scale


def _crash(graph: Graph, asking: Asking) -> bool:
    """To partition, compile or run it raises, ends the process, or does not end."""

    def attempt() -> NoReturn:
        signal.alarm(WITHIN)
        try:
            _is_off(graph, asking)
        except Exception:  # noqa: BLE001  (a backend may raise anything)
            os._exit(1)
        os._exit(0)

    if not _named(graph, asking):
        return False
    return os.waitpid(fork(attempt), 0)[1] != 0


def _named(graph: Graph, asking: Asking) -> bool:
    """There is such a program; nobody is asked about it."""
    try:
        prepared(graph, asking.backend, asking.table.preserve, asking.table.mark)
    except Exception:  # noqa: BLE001  (torch raises anything for what is no program)
        return False
    return True


SHOWS: Mapping[str, Callable[[Graph, Asking], bool]] = MappingProxyType(
    {"undelegated": _undelegated, "wrong": _wrong, "crash": _crash, "op": _named}
)
"""What a part may have to show, and whether a graph does."""


# ------------------------------------------------------------------------------------ the script


def script(graph: Graph, operator: Operator, spec: str, what: str) -> str:
    """A program of at most 20 lines that shows it again."""
    inputs = "".join(f"{text}, " for text in input_sources(graph))
    lines = [
        f'"""{place(operator)}: {what} on {spec}."""',
        "import npu_assay, torch, torch.ao.quantization.fx._decomposed  # the operators quantize and dequantize",
        *_shortened(model_source(graph)),
        f"program = torch.export.export(Model(), ({inputs}))",
        f"one = npu_assay.explain(program, [{spec!r}]).backends[0]",
        'print(*filter(None, [one.error]), *one.causes, *one.numbers, sep="\\n")',
    ]
    return "\n".join(lines) + "\n"


def _shortened(source: str) -> Iterator[str]:
    """The lines of a model, with all constants in one."""
    buffers = [line.strip().removeprefix(REGISTER) for line in source.splitlines() if line.strip().startswith(REGISTER)]
    for line in source.splitlines():
        if line.strip().startswith(REGISTER):
            if buffers:
                yield f"        for name, data in ({''.join(f'({text}, ' for text in buffers)}):"
                yield "            self.register_buffer(name, data)"
            buffers = []
        elif line.strip():
            yield line
