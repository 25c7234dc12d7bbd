"""Inputs by name and nested ones: each way to give them runs, quantizes and compares the same model."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torchao", reason="the quantizers are the extra `quantize`")

import numpy as np
import torch
from click.testing import CliRunner
from click.testing import Result as Ran
from quantizing import QUANTIZES
from torch import Tensor, nn
from torch.utils import _pytree as pytree

import npu_assay
from npu_assay.conformance.cli import main
from npu_assay.conformance.common.errors import UsageError
from npu_assay.conformance.explain.inputs import Inputs, inputs_of, others
from npu_assay.conformance.explain.models import load_model, model_of, samples_of
from npu_assay.conformance.explain.record import Explained

pytestmark = QUANTIZES


class Named(nn.Module):
    """As models of transformers: inputs by name, one of them left out, results by name."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.table, self.head = nn.Embedding(10, 8), nn.Linear(8, 8)

    def forward(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor | None = None) -> Any:
        return {"states": self.head(self.table(input_ids)) * attention_mask[..., None]}


class Nested(nn.Module):
    """A list, a dict, and one input by name; four tensors of one size."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.a, self.b = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, pair: list[Tensor], more: dict[str, Tensor], *, scale: Tensor) -> Tensor:
        return (self.a(pair[0]) + self.b(pair[1]) * more["gain"]) * scale  # type: ignore[no-any-return]


IDS, MASK = torch.tensor([[1, 2, 3, 4]]), torch.ones(1, 4)
PAIR = [torch.randn(1, 8), torch.randn(1, 8)], {"gain": torch.randn(1, 8)}
SCALE = {"scale": torch.randn(1, 8)}


def by_name() -> tuple[nn.Module, dict[str, Tensor]]:
    """A factory of inputs by name, not in the order of the model's."""
    return Named(), {"attention_mask": MASK, "input_ids": IDS}


def mixed() -> tuple[nn.Module, tuple[Any, ...], dict[str, Tensor]]:
    """A factory of nested inputs and one by name."""
    return Nested(), PAIR, SCALE


def other_way() -> object:
    """A factory of example inputs in the wrong order."""
    return Nested(), SCALE, PAIR


def run(*arguments: object, code: int = 0) -> Ran:
    result = CliRunner().invoke(main, ["explain", *map(str, arguments), "-n", "1"])
    assert result.exit_code == code, result.output
    return result


def told(*arguments: object) -> Explained:
    text = run(*arguments, "--backend", "xnnpack", "--json").output
    return npu_assay.conformance.explain.Explanation.from_json(json.loads(text)).backends[0]


@pytest.mark.parametrize("name", ["by_name", "mixed"])
@pytest.mark.parametrize("how", [[], ["--calibrate", "random"], ["--calibrate", "random", "--dynamic"]], ids=str)
def test_a_model_with_inputs_by_name_has_numbers(name: str, how: list[str]) -> None:
    one = told(f"{__name__}:{name}", *how)
    assert one.error == "" and one.numbers and all(each.cosine and each.cosine > 0.99 for each in one.numbers)
    assert bool(one.layers) == bool(how)


@pytest.mark.parametrize("name", ["by_name", "mixed"])
def test_a_file_with_inputs_by_name_has_numbers(name: str, tmp_path: Path) -> None:
    torch.export.save(load_model(f"{__name__}:{name}").program, path := tmp_path / "model.pt2")
    one = told(path, "--calibrate", "random")
    assert one.error == "" and len(one.numbers) == 3


class Result(tuple[Tensor, ...]):
    """What a library gives, and tells torch how to take apart."""


class Wrapped(nn.Module):
    """A model whose result is a library's own."""

    def forward(self, x: Tensor) -> Any:
        return {"inside": Result((x.abs(), x + 1))}


RESULT = "a_library.Result"


@pytest.fixture
def registered() -> Iterator[None]:
    pytree.register_pytree_node(
        Result, lambda each: (list(each), None), lambda each, _: Result(each), serialized_type_name=RESULT
    )
    yield
    pytree._deregister_pytree_node(Result)


def test_a_file_with_results_of_a_library_that_is_not_here(
    registered: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.export.save(torch.export.export(Wrapped(), (torch.ones(1, 8),)), path := tmp_path / "model.pt2")
    monkeypatch.delitem(pytree.SERIALIZED_TYPE_TO_PYTHON_TYPE, RESULT)
    program = load_model(str(path)).program
    found = program.module()(torch.full((1, 8), -2.0))
    assert [each.tolist() for each in found["inside"]] == [[[2.0] * 8], [[-1.0] * 8]]


def test_a_file_whose_names_would_import_a_module_is_refused(tmp_path: Path) -> None:
    torch.export.save(load_model(f"{__name__}:by_name").program, path := tmp_path / "model.pt2")
    names, enumeration = json.dumps(json.dumps(["states"])), json.dumps(json.dumps([{"__enum__": 1, "fqn": "this:A"}]))
    with zipfile.ZipFile(path) as given, zipfile.ZipFile(changed := tmp_path / "changed.pt2", "w") as made:
        for name in given.namelist():
            text = given.read(name)
            made.writestr(name, text.replace(_inside(names), _inside(enumeration)))
    with pytest.raises(UsageError, match="found an enumeration among the names"):
        load_model(str(changed))


def _inside(text: str) -> bytes:
    """A JSON text inside another."""
    return json.dumps(text)[1:-1].encode()


def test_a_part_of_a_model_with_inputs_by_name_is_found(tmp_path: Path) -> None:
    arguments = ["reduce", f"{__name__}:by_name", "--backend", "neutron", "--of", "undelegated"]
    result = CliRunner().invoke(main, [*arguments, "--calibrate", "random"])
    assert result.exit_code == 0 and "mul.Tensor" in result.output, result.output


def test_samples_of_a_file_go_by_the_names_of_inputs(tmp_path: Path) -> None:
    model, masks = load_model(f"{__name__}:by_name"), np.linspace(0, 1, 8, dtype=np.float32).reshape(2, 1, 4)
    ids = np.arange(8).reshape(2, 1, 4)
    np.savez(path := tmp_path / "samples.npz", attention_mask=masks, input_ids=ids)
    found = samples_of(model, str(path))
    assert [each.kwargs["input_ids"].tolist() for each in found] == ids.tolist()
    assert [each.kwargs["attention_mask"].tolist() for each in found] == masks.tolist()


@pytest.mark.parametrize("names", [("attention_mask", "ids"), ("mask", "ids"), ("arr_0", "ids")])
def test_arrays_of_other_names_are_not_guessed(names: tuple[str, str], tmp_path: Path) -> None:
    arrays: Any = np.arange(4).reshape(1, 1, 4), np.ones((1, 1, 4), dtype=np.float32)
    model = load_model(f"{__name__}:by_name")
    np.savez(path := tmp_path / "samples.npz", **dict[str, Any](zip(names, arrays, strict=True)))
    with pytest.raises(UsageError, match=f"found arrays {', '.join(names)}, expected the names attention_mask, input_"):
        samples_of(model, str(path))
    np.savez(path, *arrays[::-1])
    assert samples_of(model, str(path))[0].kwargs["input_ids"].tolist() == arrays[0][0].tolist()


def test_every_leaf_has_numbers_of_its_own() -> None:
    example = inputs_of(load_model(f"{__name__}:mixed").program, (PAIR, SCALE))
    for seed in (1, 2):
        leaves = others(example, seed).leaves
        assert len({tuple(leaf.flatten().tolist()) for leaf in leaves}) == len(leaves) == 4
    assert not others(example, 1).leaves[0].equal(others(example, 2).leaves[0])


def test_every_way_to_give_inputs_is_one_call() -> None:
    program = load_model(f"{__name__}:mixed").program
    given: list[Any] = [(PAIR, SCALE), Inputs(PAIR, SCALE), (*PAIR[0], PAIR[1]["gain"], SCALE["scale"])]
    found = [model_of(program, [each]).inputs[0] for each in given]
    assert all(x is y for each in found for x, y in zip(each.leaves, found[0].leaves, strict=True))
    assert type(found[2].args[0]) is list and found[2].kwargs == SCALE


@pytest.mark.parametrize(
    "given", [(IDS,), {"input_ids": IDS}, {"input_ids": IDS, "attention_mask": MASK, "more": MASK}]
)
def test_inputs_that_do_not_fit_are_told(given: Any) -> None:
    program = load_model(f"{__name__}:by_name").program
    with pytest.raises(UsageError, match=r"^inputs\[0\]: found .*, expected attention_mask, input_ids by name$"):
        npu_assay.explain(program, ["xnnpack"], inputs=[given])


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (torch.ones(1, 5), r"attention_mask: wrong input: found float32\[1, 5\], expected float32\[1, 4\]"),
        (torch.ones(4), r"attention_mask: wrong input: found float32\[4\], expected float32\[1, 4\]"),
        (MASK.double(), r"attention_mask: wrong input: found float64\[1, 4\], expected float32\[1, 4\]"),
    ],
)
@pytest.mark.parametrize("name", ["samples", "inputs"])
def test_samples_and_inputs_of_other_sizes_are_told(name: str, wrong: Tensor, told: str) -> None:
    program = load_model(f"{__name__}:by_name").program
    fits: dict[str, Any] = {"input_ids": IDS, "attention_mask": MASK}
    with pytest.raises(UsageError, match=rf"^{name}\[1\]: {told}$"):
        given: dict[str, Any] = {name: [fits, {**fits, "attention_mask": wrong}]}
        npu_assay.explain(program, ["xnnpack"], **given)


def test_a_factory_of_inputs_in_another_order_is_told() -> None:
    result = run(f"{__name__}:other_way", "--backend", "xnnpack", code=2)
    assert (
        "example inputs: found dict, expected a tensor, a tuple, a dict by name, or a tuple and a dict" in result.output
    )
