"""Features and contexts from installed packages: names for predicates, and programs around an operator.

A package names them in the entry-point group `npu_assay.constraints`; each entry is a Feature, a Context, or a tuple of
these. They define what is promised and which programs are tested, so they are code of the oracle and must not come from
the package of a backend that is judged.
"""

from __future__ import annotations

import keyword
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from npu_assay.conformance.predicates.derived import Applied
from npu_assay.conformance.predicates.evaluation import Undefined
from npu_assay.conformance.predicates.operands import Operand
from npu_assay.conformance.programs.graph import Graph
from npu_assay.reference import outside
from npu_assay.reference.outside import OutsideError

PLAIN = (bool, int, float, str, Operand, type(None))


@dataclass(frozen=True)
class Feature:
    """A name that predicates may use, and what it is of an application of an operator.

    of: returns a number, a string, a bool, an operand or a tuple of these; None if the application lacks the feature.
    It sees `op`, `arguments` by their names in torch's schema, `operands`, `results`, every other feature
    (`find("kernel_h")`), and the program around it (`around.graph`, `around.subject`). The same application has the
    same value every time.
    """

    name: str
    of: Callable[[Any], Any]

    def value(self, application: Applied) -> Any:
        """The feature's value. Raises OutsideError, which names it, if `of` raises an error or returns another type."""
        try:
            found = self.of(application)
        except Undefined:
            return None  # of a feature that it asks for
        except OutsideError:
            raise
        except Exception as error:
            raise OutsideError(f"{self._where(application)}: {type(error).__name__}: {error}") from error
        if not _is_plain(found):
            raise OutsideError(
                f"{self._where(application)}: found a {type(found).__name__}, "
                f"expected a number, a string, a bool, an operand, a tuple of these, or None"
            )
        return found

    def _where(self, application: Applied) -> str:
        shapes = ", ".join(str(list(operand.shape)) for operand in application.operands)
        return f"feature {self.name!r} of {outside.CONSTRAINTS}, of {application.op} on {shapes or 'nothing'}"


@dataclass(frozen=True)
class Context:
    """A program around an operator, which is a case of every row that can have it: `operator/context/NAME`.

    around: makes it from a row's plain program and the name of the tested step, which it must keep unchanged; None if
    the operator cannot be in this context.
    """

    name: str
    around: Callable[[Graph, str], Graph | None]

    def program(self, graph: Graph, subject: str) -> Graph | None:
        """The program. Raises OutsideError, with the context's name, if `around` raises or returns another type."""
        plain = next(step for step in graph.steps if step.name == subject)
        where = f"context {self.name!r} of {outside.CONSTRAINTS}, around {plain.op}"
        try:
            found = self.around(graph, subject)
        except Exception as error:
            raise OutsideError(f"{where}: {type(error).__name__}: {error}") from error
        if found is None:
            return None
        if not isinstance(found, Graph):
            raise OutsideError(f"{where}: found a {type(found).__name__}, expected a Graph or None")
        if plain.op not in [step.op for step in found.steps if step.name == subject]:
            raise OutsideError(f"{where}: found no step {subject!r} of {plain.op}, expected it as it was given")
        return found


def _is_plain(found: object) -> bool:
    return all(map(_is_plain, found)) if isinstance(found, tuple) else isinstance(found, PLAIN)


def outside_features() -> Mapping[str, Feature]:
    """The features that installed packages bring, by name. Raises OutsideError."""
    return {name: found for name, found in _brought().items() if isinstance(found, Feature)}


def outside_contexts() -> tuple[Context, ...]:
    """The contexts that installed packages bring, in the order of their entries. Raises OutsideError."""
    return tuple(found for found in _brought().values() if isinstance(found, Context))


@cache
def _brought() -> Mapping[str, Feature | Context]:
    """All features and contexts by name. Raises OutsideError for an invalid entry or a name that is used twice."""
    found = dict[str, Feature | Context]()
    for point in outside.constraint_points():
        where = f"constraint {point.value!r} of {outside.CONSTRAINTS}"
        try:
            loaded = point.load()
        except Exception as error:  # whatever a stranger's module raises
            raise OutsideError(f"{where}: {type(error).__name__}: {error}") from error
        for each in _listed(loaded, where):
            if each.name in found:
                raise OutsideError(f"{where}: {each.name} is there already, expected another name")
            found[each.name] = each
    return found


def _listed(loaded: object, where: str) -> Iterator[Feature | Context]:
    for each in loaded if isinstance(loaded, tuple) else (loaded,):
        if not isinstance(each, Feature | Context):
            expected = "a Feature, a Context or a tuple of these"
            raise OutsideError(f"{where}: found a {type(each).__name__}, expected {expected}")
        name = each.name
        if not isinstance(name, str) or not name.isidentifier() or keyword.iskeyword(name) or name != name.lower():
            raise OutsideError(f"{where}: its name is {name!r}, expected lower-case letters, digits and _")
        yield each
