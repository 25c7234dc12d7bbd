"""The answer for a whole network: few lines, the first cause by its module, why nothing is left of its numbers."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from places import ROOT, SHARED

pytest.importorskip("torchao", reason="the quantizers are the extra `quantize`")

import torch
from explain_models import of
from mobile_networks import mobilenet_v3_small
from quantizing import QUANTIZES
from torch import Tensor, nn

import npu_assay
from npu_assay.conformance.explain.observing import folded
from npu_assay.conformance.explain.record import Explained, Explanation
from npu_assay.conformance.explain.text import WIDTH, explanation_lines

pytestmark = QUANTIZES
BACKENDS = ("neutron", "neutron-1.4", "xnnpack", "ethos-u55", "ethos-u85")


@cache
def mobilenet() -> Explanation:
    """With random weights, as torchvision draws them, on two random images."""
    module, (image,) = mobilenet_v3_small()
    samples = [(image,), (torch.randn(image.shape, generator=torch.Generator().manual_seed(1)),)]
    return npu_assay.explain(torch.export.export(module, (image,)), BACKENDS, samples)


@pytest.mark.long
@pytest.mark.parametrize(
    ("chosen", "most"), [(BACKENDS, 79), (BACKENDS[:3], 60), (BACKENDS[2:], 60), (BACKENDS[:1], 60)]
)
def test_a_network_fits_a_screen_and_the_answer_is_first(chosen: tuple[str, ...], most: int) -> None:
    found = Explanation("net", tuple(one for one in mobilenet().backends if one.backend in chosen))
    lines = explanation_lines(found)
    assert len(lines) <= most and max(map(len, lines)) <= WIDTH
    answers = [n for n, line in enumerate(lines) for name in chosen if line.startswith(f"{name}: ")]
    assert answers[0] == 1 and not any("warning" in line for line in lines[: lines.index("")])
    assert len([line for line in lines if re.match(r"(neutron|xnnpack).*: warning", line)]) <= 6


@pytest.mark.long
def test_the_first_cause_is_a_module_of_the_users() -> None:
    """All parts of every Hardswish together; the table would have a clamp, an add, a mul and a div of each."""
    one = mobilenet().backends[0]
    first, known = one.causes[0], {each.name: each for each in one.operators}
    assert (first.label, first.times) == ("Hardswish", 19)
    assert {known[name].kind for name in first.roots} == {"Hardswish"}
    assert [cause.label for cause in one.causes[:3]].count("Hardswish") == 1
    assert "  first cause: Hardswish (19 times) (features.0.2): " in explanation_lines(mobilenet())[3]


@pytest.mark.long
def test_why_nothing_is_left_is_one_sentence_for_all_that_it_is_true_of() -> None:
    text = " ".join(" ".join(explanation_lines(mobilenet())).split())
    assert text.count("carry nothing of the model (0.0 dB") == 2  # two smallest scales
    assert "2^-12, the smallest scale that observers give" in text and "2^-16, the smallest" in text
    one = mobilenet().backends[2]
    assert "of features.4.block.1.2 (Hardswish), mobile_networks.py:" in one.silence


@pytest.mark.long
def test_a_warning_of_many_tensors_is_one_with_the_first() -> None:
    found = mobilenet().backends[2].warnings
    assert len(found) == 2
    assert all(
        re.match(r"\d+ times, first aten\.\w+\.default of features\.\d[\w.]+ \(\w+\), \w+\.py:\d+: ", w) for w in found
    )


def test_warnings_that_differ_in_numbers_alone_are_one() -> None:
    told = [("a", "1 of 8 from -1e-05 to 2"), ("b", "other"), ("c", "3 of 16 from 0 to -0.5"), ("", "plain")]
    assert list(folded(told)) == ["2 times, first a: 1 of 8 from -1e-05 to 2", "b: other", "plain"]


class Shrinks(nn.Module):
    """A layer whose results are far below what any scale says, and others after it; or of one that clips all."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.before, self.tiny, self.after = (
            nn.Linear(16, 16),
            nn.Linear(16, 16, bias=False),
            nn.Linear(16, 16, bias=False),
        )
        with torch.no_grad():
            self.tiny.weight.mul_(factor)

    def forward(self, x: Tensor) -> Tensor:
        return self.after(self.tiny(self.before(x)))  # type: ignore[no-any-return]


@pytest.mark.parametrize("backend", ["neutron", "xnnpack", "ethos-u55"])
@pytest.mark.parametrize(("factor", "silent"), [(1e-6, True), (1.0, False)])
def test_the_layer_that_loses_everything_is_named(backend: str, factor: float, silent: bool) -> None:
    one = of(Shrinks(factor), (torch.randn(4, 16),), backend)
    assert bool(one.silence) == silent, one.silence
    assert not silent or ("of tiny (Linear)" in one.silence and "below the steps of their codes" in one.silence)


def test_samples_unlike_the_inputs_are_told_as_the_reason() -> None:
    """Results far outside of the range of their codes: clipped, not too small."""
    torch.manual_seed(0)
    module, small = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 16)).eval(), torch.randn(4, 16) * 1e-2
    program = torch.export.export(module, (small,))
    (one,) = npu_assay.explain(program, ["neutron"], [(small,)], inputs=[(small * 1e4,)]).backends
    assert "carry nothing" in one.silence and "calibrate with inputs like these" in one.silence, one.silence


# ------------------------------------------------------------------------------------ second reasons


class Grouped(nn.Module):
    """Attention whose keys are shared by groups of heads: no size makes the backend take its products alone."""

    def __init__(self, tokens: int) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.tokens, self.q, self.k = tokens, nn.Linear(32, 32), nn.Linear(32, 16)

    def forward(self, x: Tensor) -> Tensor:
        q = self.q(x).view(1, self.tokens, 4, 8).transpose(1, 2)
        k = self.k(x).view(1, self.tokens, 2, 8).transpose(1, 2).repeat_interleave(2, 1)
        scores = torch.matmul(q, k.transpose(2, 3))
        return scores.softmax(3)


def attention(tokens: int) -> Explained:
    return of(Grouped(tokens), (torch.randn(1, tokens, 32),), "neutron")


def test_a_second_reason_stands_beside_the_first() -> None:
    cause = next(each for each in attention(20).causes if each.code == "matrix_dims_multiple_of")
    assert {reason.code for reason in cause.also} >= {"quantized"}


@pytest.mark.parametrize("tokens", [20, 24])
def test_no_advice_contradicts_the_quantizer(tokens: int) -> None:
    """`matmul` is in the quantizer's list: it has no codes as its operands have none."""
    one = attention(tokens)
    known = (ROOT / "docs" / "lowering.md").read_text().partition("| `NeutronQuantizer` | ")[2].splitlines()[0]
    left_alone = [cause for cause in one.causes if "no codes inside" in cause.found]
    assert "matmul" in known and left_alone
    for cause in left_alone:
        operator = cause.found.split(".")[1]
        assert operator not in known.split(", "), cause


def test_no_what_if_is_of_a_rank() -> None:
    texts = [cause.change.text for tokens in (20, 24) for cause in attention(tokens).causes if cause.change]
    assert not [text for text in texts if "rank" in text or "constant" in text]


def test_gains_grow_with_the_causes_that_are_gone() -> None:
    one = attention(20)
    together = [cause.together.operators for cause in one.causes]
    assert together == sorted(together) and all(c.together.operators >= c.alone.operators for c in one.causes)
    assert together[-1] <= len(one.operators) - len(one.taken)


class Mixed(nn.Module):
    """Two things that Neutron leaves out, one after the other, and one behind a layer that it takes."""

    def __init__(self, first: nn.Module, second: nn.Module, third: nn.Module) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.stem, self.neck = nn.Conv2d(8, 8, 3, padding=1), nn.Conv2d(8, 8, 3, padding=1)
        self.first, self.second, self.third = first, second, third

    def forward(self, x: Tensor) -> Tensor:
        return self.third(self.neck(self.second(self.first(self.stem(x)))))  # type: ignore[no-any-return]


@pytest.mark.parametrize("gone", range(3))
def test_a_gain_is_what_the_mended_model_gains(gone: int) -> None:
    """Of three activations one is replaced by a relu: what else is then taken is the gain without its own operators."""
    kinds = (nn.Hardswish, nn.ELU, nn.Mish)
    image = (torch.randn(1, 8, 8, 8),)
    before = of(Mixed(*(kind() for kind in kinds)), image, "neutron")
    after = of(Mixed(*(nn.ReLU() if n == gone else kind() for n, kind in enumerate(kinds))), image, "neutron")
    (cause,) = (each for each in before.causes if kinds[gone].__name__.lower() == each.label.lower())
    path = ("first", "second", "third")[gone]
    own = {each.name for each in before.operators if each.module == path}
    won = {(one.module, one.operator) for one in after.taken if one.module != path}
    had = {(one.module, one.operator) for one in before.taken}
    others = max(0, cause.alone.operators - len(own & set(cause.operators)))  # it may wait for a neighbor itself
    assert others == len(won - had)


# ------------------------------------------------------------------------------------ progress


def test_the_first_line_is_there_before_torch_is_loaded(tmp_path: Path) -> None:
    """And with -v each step of each backend, in order."""
    (tmp_path / "torch.py").write_text("raise ImportError('no torch here')\n")
    call = [sys.executable, "-m", "npu_assay", "explain", "explain_models:small", "--backend", "neutron", "-v"]
    environment = {**os.environ, "PYTHONPATH": str(SHARED)}
    blocked = {**environment, "PYTHONPATH": f"{tmp_path}{os.pathsep}{SHARED}"}
    early = subprocess.run(call, env=blocked, capture_output=True, text=True, timeout=300, check=False)
    assert early.stderr.splitlines()[0] == "reading explain_models:small, to ask neutron"
    whole = subprocess.run(call, env=environment, capture_output=True, text=True, timeout=300, check=False)
    steps = [line.partition("neutron: ")[2] for line in whole.stderr.splitlines()[1:]]
    order = ("reading the model", "lowering", "looking for causes", "running", "done")
    assert whole.returncode == 0 and steps == [step for step in order if step in steps] and len(steps) >= 2
