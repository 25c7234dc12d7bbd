"""The script of one case: the model, ExecuTorch's way to lower and run it, and what is wrong with the answer."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from string import Template
from typing import Any

from torch import Tensor, fx

from npu_assay.conformance.compare import drift
from npu_assay.conformance.compare.drift import AGREEMENTS, FLAGS, Drift, Entry
from npu_assay.conformance.judge.numerics import EXACT_SCHEMES, golden
from npu_assay.conformance.programs.build import build, model_inputs, module, quantised_steps
from npu_assay.conformance.programs.graph import Case, Graph
from npu_assay.conformance.repro import parts
from npu_assay.conformance.repro.model import input_sources, literal, model_source
from npu_assay.conformance.run.outline import outline
from npu_assay.conformance.run.tagging import subject_nodes
from npu_assay.reference.affine import Affine

WIDTH = 110


@dataclass(frozen=True)
class Target:
    """How a backend is called: imports, device, the call of a delegate, the partitioner as an expression."""

    imports: str
    device: str
    call: str
    partitioner: str


def _arm(specification: str) -> Target:
    made = f'TOSAPartitioner(TosaCompileSpec("{specification}"))'
    return Target(parts.ARM_IMPORTS, parts.ARM_DEVICE, parts.ARM_CALL, made)


TARGETS: Mapping[str, Target] = {
    "executorch:xnnpack": Target(
        parts.XNNPACK_IMPORTS, parts.XNNPACK_DEVICE, parts.XNNPACK_CALL, "XnnpackPartitioner($OPTIONS)"
    ),
    "executorch:arm-tosa": _arm("TOSA-1.0+INT+int16+int4+cf"),
    "executorch:ethos-u55": _arm("TOSA-1.0+INT+int16+int4+u55"),
    "executorch:ethos-u85": _arm("TOSA-1.0+INT+int16+int4+cf"),
}
"""The Ethos-U backends are asked through TOSA, for which ExecuTorch has the same rules, and no Vela is needed."""


def script(found: Drift, entry: Entry, case: Case) -> str:
    """A Python program that ends with status 1 when the entry's fault shows."""
    target = TARGETS[found.backend]
    options = dict(case.options) if found.backend == "executorch:xnnpack" else {}
    dies = "died" in "".join(failure.message for failure in entry.result.failures)
    configured = [parts.XNNPACK_CONFIGS] if {"configs", "config_precisions"} & options.keys() else []
    imports = "\n".join([*(["import os"] if dies else []), target.imports, *configured])
    run = _fill(parts.RUN_DELEGATE, DEVICE=target.device, CALL=target.call)
    head = _fill(
        parts.HEAD,
        TITLE=title(found, entry),
        STORY=_story(found, entry, case),
        IMPORTS=imports,
        MODEL=model_source(case.graph),
        INPUTS="".join(f"    {text},\n" for text in input_sources(case.graph)),
        SUBJECT=_subject(found, case),
        RUN=run if drift.outcome(entry.result) in (drift.BREAKS, drift.WRONG) else "",
    )
    partitioner = _fill(target.partitioner, OPTIONS=_options(options))
    lower = _export(found, case) + _fill(parts.LOWER, PARTITIONER=partitioner, PRESERVE=_preserve(found, case))
    return head + _end(found, entry, case, lower, dies) + parts.LAST


def title(found: Drift, entry: Entry) -> str:
    """What is wrong in one line."""
    what = FLAGS[entry.flag] if entry.flag else AGREEMENTS[entry.agreement]
    return f"{found.backend.removeprefix('executorch:')}: {entry.result.row}: {what}"


def _story(found: Drift, entry: Entry, case: Case) -> str:
    promise = "is silent" if case.expect == "unspecified" else f"says {case.expect}"
    rule = f" ({case.reason}: {_sentence(found, case)})" if case.reason else ""
    table = found.table.title
    lines = [
        f"Case {case.id}.",
        f"The table {table} {promise}{rule}; the partitioner: {entry.result.verdict}.",
        *(f"{failure.check}: {failure.message}" for failure in entry.result.failures if failure.check != "tag"),
    ]
    plain = [line.replace("\\", "/").replace('"""', "'''") for line in lines]
    return "\n".join("\n".join(textwrap.wrap(line, WIDTH)) for line in plain) + "\n"


def _sentence(found: Drift, case: Case) -> str:
    """The broken rule in words."""
    return found.table.sentence_of(case.row, case.reason) or "no rule of the row"


def _subject(found: Drift, case: Case) -> str:
    """The operators that decide whether the subject is delegated."""
    program = build(case.graph, found.table.preserve)
    nodes = subject_nodes(case, found.table.row(case.row), outline(program.graph))
    names = sorted({node.target for node in nodes}) or [case.row]
    return "{" + ", ".join(f'"{name}"' for name in names) + "}"


def _options(options: Mapping[str, Any]) -> str:
    """Keyword arguments of XnnpackPartitioner."""

    def text(key: str, given: Any) -> str:
        if key not in ("configs", "config_precisions"):
            return f"{key}={given!r}"
        prefix = "ConfigPrecisionType." if key == "config_precisions" else ""
        names = [given] if isinstance(given, str) else list(given)
        made = [f"{prefix}{name}" if prefix or name == "EluConfig" else f"configs.{name}" for name in names]
        return f"{key}=[{', '.join(made)}]"

    return ", ".join(text(key, given) for key, given in options.items())


def _export(found: Drift, case: Case) -> str:
    """Export, and a quantizer's notes where the vendor's partitioner reads them."""
    graph, mark = case.graph, found.table.mark
    export = _fill(parts.EXPORT, DYNAMIC=_dynamic(graph))
    marked = quantised_steps(graph)
    if not mark or not marked:
        return export
    written = module(graph)
    assert isinstance(written, fx.GraphModule)
    kinds = sorted({step.op for step in graph.steps if step.name not in marked})
    rest = f" and str(node.target) not in {set(kinds)!r}" if kinds else ""
    return export + _fill(parts.MARK, MARKED=rest, MARK=mark)


def _dynamic(graph: Graph) -> str:
    """The dynamic sizes of the inputs."""
    if not any(value.dynamic for value in graph.values):
        return ""
    axes = [dict.fromkeys(value.dynamic, "torch.export.Dim.DYNAMIC") for value in graph.inputs]
    shapes = ["{" + ", ".join(f"{axis}: {text}" for axis, text in found.items()) + "}" for found in axes]
    return f", dynamic_shapes=({', '.join(shapes)},)"


def _preserve(found: Drift, case: Case) -> str:
    """The operators of the case that `to_edge` must not decompose."""
    kept = sorted({step.op for step in case.graph.steps} & set(found.table.preserve))
    return f", preserve_ops=[{', '.join(f'torch.ops.{name}' for name in kept)}]" if kept else ""


def _end(found: Drift, entry: Entry, case: Case, lower: str, dies: bool) -> str:
    """What is asked: does it break, are the numbers wrong, is it delegated?"""
    match drift.outcome(entry.result):
        case drift.BREAKS:
            return _fill(parts.DIES if dies else parts.BREAKS, LOWER=textwrap.indent(lower, "    "))
        case drift.WRONG:
            expected, limits = _expected(found, entry, case)
            return lower + _fill(parts.WRONG, EXPECTED=expected, LIMITS=limits)
    if entry.agreement == drift.TABLE_REJECTS:
        return lower + _fill(parts.TABLE_REJECTS, RULE=_sentence(found, case).replace('"', "'"))
    return lower + parts.TABLE_ACCEPTS


def _fill(text: str, **fields: str) -> str:
    return Template(text).substitute(fields)


# ------------------------------------------------------------------------------------ numbers


def _expected(found: Drift, entry: Entry, case: Case) -> tuple[str, str]:
    """The right outputs and by how much each may differ: those of the model in torch, where they are right."""
    rescale = found.table.rescale
    delegated = entry.result.verdict == "accept"
    scheme = rescale if rescale in EXACT_SCHEMES else None
    run = golden(case.graph).walk(scheme, delegated)
    nothing = (None,) * len(run.bounded)
    exact = golden(case.graph).codes(scheme) if delegated and scheme else nothing
    reals = golden(case.graph).reals(scheme) if delegated and scheme else nothing
    answer = module(case.graph)(*model_inputs(case.graph))
    eager = list(answer) if isinstance(answer, list | tuple) else [answer]
    right, limits = list[Tensor](), list[float]()
    for index, bounded in enumerate(run.bounded):
        legal, quant = run.codes[index], run.quants[index]
        real = reals[index]
        if real is not None:
            right.append(real)
            limits.append(0.0)
            continue
        if legal is None or quant is None:
            right.append(bounded.value)
            limits.append(float(bounded.error.max()) if bounded.error.numel() else 0.0)
            continue
        affine = Affine(float(quant.scale), quant.zero_point, quant.qmin, quant.qmax)  # type: ignore[arg-type]
        known = exact[index]
        right.append(((legal.nearest if known is None else known).double() - quant.zero_point) * affine.scale)
        limits.append((0.5 if known is not None else 1.5) * affine.scale)
    text = f"[{', '.join(f'{limit:.3g}' if math.isfinite(limit) else 'torch.inf' for limit in limits)}]"
    if all(map(_near, eager, right, limits)):
        return "model(*inputs)" if len(eager) > 1 else "(model(*inputs),)", text
    return f"({', '.join(literal(x.to(y.dtype)) for x, y in zip(right, eager, strict=True))},)", text


def _near(a: Tensor, b: Tensor, limit: float) -> bool:
    return a.shape == b.shape and bool(((a.double() - b).abs() <= max(limit / 2, 1e-12)).all())


__all__ = ["TARGETS", "script", "title"]
