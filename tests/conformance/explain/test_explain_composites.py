"""What a user wrote is one cause: a module of torch's, a function, a small module, a line; with what helps."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest

pytest.importorskip("torchao", reason="the quantizers are the extra `quantize`")

import torch
from explain_models import of
from quantizing import QUANTIZES
from torch import Tensor, nn
from torch.nn import functional

from npu_assay.conformance.explain.composites import written
from npu_assay.conformance.explain.record import Cause, Explained
from npu_assay.conformance.explain.trying import FORMS, SIMILAR, name_of

pytestmark = QUANTIZES


class Twice(nn.Module):
    """Two convolutions, each with the same thing behind it, and one more."""

    def __init__(self, make: Callable[[], nn.Module]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.a, self.b, self.c = (nn.Conv2d(8, 8, 3, padding=1) for _ in range(3))
        self.first, self.second = make(), make()

    def forward(self, x: Tensor) -> Tensor:
        return self.c(self.second(self.b(self.first(self.a(x)))))  # type: ignore[no-any-return]


class Function(nn.Module):
    """A function in a module that computes more than that."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function, self.after = function, nn.Conv2d(8, 8, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.after(self.function(x))  # type: ignore[no-any-return]


class Line(Function):
    """Operators on a line, which says what they are."""

    def forward(self, x: Tensor) -> Tensor:
        y = torch.erf(x.sin().cos())
        return self.after(y)  # type: ignore[no-any-return]


class RootNorm(nn.Module):
    """A norm of the user's own."""

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.rsqrt(x.pow(2).mean(1, keepdim=True) + 1e-6)


class Attends(nn.Module):
    """Attention, written out."""

    def __init__(self) -> None:
        super().__init__()
        self.before = nn.Conv2d(8, 8, 1)

    def forward(self, x: Tensor) -> Tensor:
        y = self.before(x).flatten(2)
        scores = torch.bmm(y, y.transpose(1, 2)) * 0.1
        return torch.bmm(scores.softmax(1).transpose(1, 2), y).reshape(x.shape)


def scaled(x: Tensor) -> Tensor:
    """Attention as a function."""
    y = x.flatten(2)
    return functional.scaled_dot_product_attention(y, y, y).reshape(x.shape)


THINGS: dict[str, tuple[Callable[[], nn.Module], str]] = {
    "hardswish": (nn.Hardswish, "Hardswish"),
    "hardsigmoid": (nn.Hardsigmoid, "Hardsigmoid"),
    "silu": (nn.SiLU, "SiLU"),
    "mish": (nn.Mish, "Mish"),
    "softsign": (nn.Softsign, "Softsign"),
    "group_norm": (lambda: nn.GroupNorm(2, 8), "GroupNorm"),
    "own_norm": (RootNorm, "RootNorm"),
    "own_attention": (Attends, "attention"),
    "function": (lambda: Function(functional.hardswish), "hardswish"),
    "own_line": (lambda: Line(torch.sin), "torch.erf(x.sin().cos())"),
    "scaled": (lambda: Function(scaled), "attention"),
}


@cache
def explained(name: str, backend: str = "neutron") -> Explained:
    return of(Twice(THINGS[name][0]), (torch.randn(1, 8, 8, 8),), backend)


def named(one: Explained, label: str) -> list[Cause]:
    return [cause for cause in one.causes if cause.label == label]


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", THINGS)
def test_it_is_one_cause_and_the_first(name: str) -> None:
    """With the paths of both, none of its operators in another cause, and all of them gained without it."""
    one, label = explained(name), THINGS[name][1]
    (cause,) = named(one, label)
    assert cause.times == 2 and cause in one.causes[: 2 if name == "own_attention" else 1]  # after its transpositions
    known = {operator.name: operator for operator in one.operators}
    assert {known[root].module.partition(".")[0] for root in cause.roots} == {"first", "second"}
    assert len(cause.roots) > 2 or name == "group_norm"  # which stays one operator
    assert cause.alone is not None and cause.alone.operators == len(cause.operators)
    before = one.causes[: one.causes.index(cause)]
    assert cause.together is not None
    assert cause.together.operators == cause.alone.operators + sum(len(each.operators) for each in before)


@pytest.mark.parametrize(("label", "backend"), [("SiLU", "neutron"), ("Hardsigmoid", "xnnpack")])
def test_the_advice_is_taken_by_the_backend(label: str, backend: str) -> None:
    """The form that is advised: the same model with it has no such cause."""
    one = explained(label.lower(), backend)
    (cause,) = named(one, label)
    (text,) = (text for text in FORMS[label.lower()] if f"write it as {text}, which gives the same" in cause.hint)
    form = FORMS[label.lower()][text]
    written_so = of(Twice(lambda: Function(form)), (torch.randn(1, 8, 8, 8),), backend)
    assert not written_so.causes and len(written_so.taken) == len(written_so.operators)


def test_what_gives_nearly_the_same_is_said_to() -> None:
    (cause,) = named(explained("hardswish"), "Hardswish")
    assert cause.hint.startswith("this backend takes x * torch.sigmoid(x) whole, which gives nearly the same")


@pytest.mark.parametrize("name", FORMS)
def test_forms_give_the_same_numbers(name: str) -> None:
    x = torch.linspace(-8, 8, 999, dtype=torch.float64)
    results = [form(x) for form in FORMS[name].values()]
    assert len(results) > 1 and all(torch.allclose(results[0], each, atol=1e-12) for each in results)
    assert all(name_of(text) == name for text in FORMS[name]), "a form is not known again"


@pytest.mark.parametrize("name", SIMILAR)
def test_what_is_similar_is_near(name: str) -> None:
    x = torch.linspace(-4, 4, 999)
    assert float((getattr(functional, name)(x) - SIMILAR[name][1](x)).abs().max()) < 0.25


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("SiLU", "silu"),
        ("y * torch.sigmoid(y)", "silu"),
        ("feature * torch.sigmoid(feature)", "silu"),
        ("x * torch.sigmoid(1.702 * x)", ""),
        ("x * nn.functional.hardsigmoid(x)", "hardswish"),
        ("Conv2d", ""),
        ("x + y", ""),
    ],
)
def test_functions_are_known_by_what_is_written(text: str, name: str) -> None:
    assert name_of(text) == name


def test_operators_that_stand_apart_are_no_thing() -> None:
    """One line, two operators, neither of which takes the other's result."""

    class Apart(nn.Module):
        def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
            return x.sin(), y.cos()

    program = torch.export.export(Apart(), (torch.ones(2), torch.ones(2)))
    nodes = [node for node in program.graph.nodes if node.op == "call_function"]
    things = written(nodes)
    assert len({things[node.name].key for node in nodes}) == 2
