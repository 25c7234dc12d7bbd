"""The features that follow from the program around an application, not from its operands and arguments.

- `distinct_operands`: how many different values it takes.
- `used`: the indices of the results that some step takes or that the model returns.
- `upstream`, `downstream`: the operators before it and after it without a quantize node in between;
  `returned_real`: whether the model returns real numbers, not codes, along `downstream`.
- `conversions`: the dtypes to which the users of the result convert it.
- `companions`: the operators that compute and are connected to it by quantized operators.
- `refusals`: how many of the user's checks refuse it; `config_precisions`: the precisions that the user names, all if
  none; `configs`: the configs that the user names; `forced`: the options that the user turns on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from npu_assay.conformance.programs.graph import Graph, Ref, Step, references

IMAGES = ("conv", "pool", "upsample", "prelu", "mean.dim")
"""Parts of names of operators whose first operand and result are images, with channels in dimension 1."""
NO_LAYOUT = ("view", "squeeze", "permute", "mm.default", "linear", "reshape")
"""Parts of names of operators that change the order of dimensions."""
PRECISIONS = ("FP32", "STATIC_QUANT", "DYNAMIC_QUANT")
"""The precisions that users of XNNPACK can name."""
COPIES = ("view", "squeeze", "clone", "alias_copy", "detach_copy", "expand_copy", "permute_copy", "as_strided")
"""Parts of names of operators that compute nothing."""


@dataclass(frozen=True)
class Surroundings:
    """A program, the name of the tested step, and the user's options of the partitioner."""

    graph: Graph
    subject: str
    options: Mapping[str, Any] = field(default_factory=dict)

    def find(self, name: str) -> Any:
        """The feature of this name; None if there is none."""
        return getattr(self, name) if name in SURROUNDINGS else None

    @cached_property
    def _steps(self) -> Mapping[str, Step]:
        return {step.name: step for step in self.graph.steps}

    @cached_property
    def _step(self) -> Step:
        return self._steps[self.subject]

    @cached_property
    def _takers(self) -> Mapping[str, tuple[Step, ...]]:
        """The steps that take each value or result."""
        found: dict[str, tuple[Step, ...]] = {}
        for step in self.graph.steps:
            for name in dict.fromkeys(ref.name for ref in taken(step)):
                found[name] = (*found.get(name, ()), step)
        return found

    @property
    def dynamic(self) -> str | None:
        """How the first operand is quantized at run time."""
        return self._step.dynamic

    @property
    def distinct_operands(self) -> int:
        return len(set(taken(self._step)))

    @property
    def used(self) -> tuple[int, ...]:
        takers = self._takers.get(self.subject, ())
        refs = (*self.graph.outputs, *(ref for step in takers for ref in taken(step)))
        return tuple(sorted({ref.index for ref in refs if ref.name == self.subject}))

    @property
    def upstream(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self._upstream(self._step)))

    def _upstream(self, step: Step) -> Iterator[str]:
        for ref in taken(step):
            before = self._steps.get(ref.name)
            if before is not None and before.quant is None:
                yield before.op
                yield from self._upstream(before)

    @property
    def downstream(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(step.op for step in self._downstream(self._step)))

    def _downstream(self, step: Step) -> Iterator[Step]:
        for after in self._takers.get(step.name, ()) if step.quant is None else ():
            yield after
            yield from self._downstream(after)

    def open_axes(self, name: str) -> tuple[int, ...]:
        """The dynamic axes of the inputs on which a result depends."""
        step = self._steps[name]
        values = {value.name: value.dynamic for value in self.graph.values}
        before = (ref.name for ref in taken(step))
        found = (values[each] if each in values else self.open_axes(each) for each in before)
        return tuple(sorted({axis for axes in found for axis in axes}))

    @property
    def conversions(self) -> tuple[str, ...]:
        """The dtypes to which the users of the result convert it; "" for a user that does not."""
        takers = self._takers.get(self.subject, ())
        found = tuple(str(dict(step.kwargs).get("dtype", "")) for step in takers)
        return (*found, "") if self.subject in {ref.name for ref in self.graph.outputs} else found

    @property
    def returned_real(self) -> bool:
        returned = {ref.name for ref in self.graph.outputs}
        reached = (self._step, *self._downstream(self._step))
        return any(step.quant is None and step.name in returned for step in reached)

    @property
    def companions(self) -> int:
        joined, waiting = {self.subject}, [self._step]
        while waiting:
            step = waiting.pop()
            near = (*(self._steps.get(ref.name) for ref in taken(step)), *self._takers.get(step.name, ()))
            for other in near:
                if other is not None and other.name not in joined and self._delegable(other):
                    joined.add(other.name)
                    waiting.append(other)
        return sum(computes(self._steps[name].op) for name in joined - {self.subject})

    def _delegable(self, step: Step) -> bool:
        """Whether a step can be in a partition; in quantized models only if its result is quantized."""
        return step.quant is not None or not self._coded

    @cached_property
    def _coded(self) -> bool:
        values, steps = self.graph.values, self.graph.steps
        return any(value.quant for value in values) or any(step.quant for step in steps)

    @property
    def refusals(self) -> int:
        checks = self.options.get("additional_checks", ())
        return sum(getattr(check, "step", None) == self.subject for check in checks)

    @property
    def config_precisions(self) -> tuple[str, ...]:
        found = self.options.get("config_precisions", PRECISIONS)
        return (found,) if isinstance(found, str) else tuple(found)

    @property
    def configs(self) -> tuple[str, ...] | None:
        return self.options.get("configs")

    @property
    def forced(self) -> tuple[str, ...]:
        return tuple(name for name, found in self.options.items() if found is True)

    def origin(self, ref: Ref) -> str:
        """The constant that a value copies without a quantize node, such as a transposed weight; else the value."""
        step = self._steps.get(ref.name)
        if step is None or step.quant is not None or computes(step.op):
            return ref.name
        name = self.origin(taken(step)[0])
        return name if any(value.name == name and value.constant for value in self.graph.values) else ref.name

    def channel_axis(self, ref: Ref, rank: int) -> int | None:
        """The channel dimension of a value: 1 for an image, else the last; None for rank 0."""
        if not rank:
            return None
        return 1 if rank > 2 and ref.name in self._images else rank - 1

    @cached_property
    def _images(self) -> frozenset[str]:
        """The values and results that are images, also across operators that keep the layout."""
        found = {name for step in self.graph.steps if _has(IMAGES, step.op) for name in _outer(step)}
        before = -1
        while len(found) != before:
            before = len(found)
            for step in self.graph.steps:
                joined = {step.name, *(ref.name for ref in taken(step))}
                if not _has(NO_LAYOUT, step.op) and joined & found:
                    found |= joined
        return frozenset(found)


SURROUNDINGS = (
    *("conversions", "distinct_operands", "used", "upstream", "downstream", "returned_real", "companions", "refusals"),
    *("config_precisions", "configs", "forced"),
)
"""The names that `Surroundings.find` knows."""


def taken(step: Step) -> tuple[Ref, ...]:
    """Every reference among a step's arguments, in order."""
    return (*references(step.args), *(ref for _, item in step.kwargs for ref in references(item)))


def computes(op: str) -> bool:
    """Whether an operator makes numbers, and does not only copy them."""
    return not _has(COPIES, op)


def _has(parts: tuple[str, ...], op: str) -> bool:
    return any(part in op for part in parts)


def _outer(step: Step) -> Iterator[str]:
    """The result and the first operand of a step."""
    yield step.name
    yield from (ref.name for ref in taken(step)[:1])
