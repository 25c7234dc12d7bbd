"""`.pt2` files: what exporters write is read, and of sizes nothing else, as sympy runs them as Python."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from exported_programs import PROGRAMS
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram, export
from torch.utils import _pytree as pytree

from npu_assay.conformance.backend.loading import load_backend
from npu_assay.conformance.common.errors import UsageError
from npu_assay.conformance.explain.archives import read_program
from npu_assay.conformance.explain.archives.sizes import arithmetic
from npu_assay.conformance.explain.explaining import How
from npu_assay.conformance.explain.models import model_of, quantize

# torch's own export code calls deprecated functions, and warns of what these programs have.
pytestmark = [
    pytest.mark.filterwarnings(f"ignore:{text}")
    for text in ("No complete tensor", "The tensor attributes", "`isinstance.treespec, LeafSpec.` is deprecated")
]


def test_products_of_open_sizes_are_read(tmp_path: Path) -> None:
    """A view of an open size has Mul(Integer(16), Symbol('s0', ...)) in the file."""

    class View(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.relu(x.reshape(x.shape[0] * 16, 2)[::3])

    program = export(View(), (torch.ones(2, 8, 4),), dynamic_shapes=({0: Dim("batch", max=8)},))
    torch.export.save(program, tmp_path / "model.pt2")
    x = torch.randn(5, 8, 4)
    assert torch.equal(read_program(tmp_path / "model.pt2").module()(x), View()(x))


@pytest.mark.parametrize(
    "size",
    [
        "Mul(Integer(2), system('true'))",
        "Symbol('s0', positive=open('x'))",
        "Symbol('print(1)')",
        "Symbol('s0').evalf(2)",
        "Mul(Integer(2), 'print(1)')",
        "Function('f')(2)",
        "Mul(*'ab')",
        "(lambda: 1)()",
        "exec(chr(49))",
        "s0.evalf(2)",
        "Symbol('s0', positive='print(1)')",
        "s0 + ",
    ],
)
def test_other_calls_are_refused(size: str) -> None:
    with pytest.raises(UsageError, match="expected arithmetic on symbols"):
        arithmetic(size)


@pytest.mark.parametrize(
    "size",
    ["s0 * 2 // 3 - (s1 + 1) % 2", "Mul(Integer(-2), Symbol('s0', positive=True, integer=True))", "Symbol('s0') ** 2"],
)
def test_arithmetic_is_read(size: str) -> None:
    assert arithmetic(size) == size


def _same(program: ExportedProgram, path: Path, name: str) -> None:
    """Saved and read, it computes the same."""
    torch.export.save(program, path)
    one = PROGRAMS[name]
    given = [pytree.tree_map_only(Tensor, Tensor.clone, (one.inputs, one.named)) for _ in range(2)]
    with torch.no_grad():
        found = read_program(path).module()(*given[0][0], **given[0][1])
        wanted = program.module()(*given[1][0], **given[1][1])
    for x, y in zip(pytree.tree_leaves(found), pytree.tree_leaves(wanted), strict=True):
        assert torch.equal(x, y) and x.dtype == y.dtype if isinstance(x, Tensor) else x == y


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_exporters_write_is_read(name: str, tmp_path: Path) -> None:
    _same(PROGRAMS[name].program(), tmp_path / "model.pt2", name)


@pytest.mark.parametrize("name", ["images", "encoder", "functions", "views", "regions"])
def test_decomposed_programs_are_read(name: str, tmp_path: Path) -> None:
    _same(PROGRAMS[name].program().run_decompositions(), tmp_path / "model.pt2", name)


@pytest.mark.parametrize(("backend", "dynamic"), [("neutron", False), ("xnnpack", True), ("ethos-u55", False)])
def test_quantized_programs_are_read(backend: str, dynamic: bool, tmp_path: Path) -> None:
    pytest.importorskip("torchao", reason="the quantizers are the extra `quantize`")
    exported = PROGRAMS["images"].program()
    model = model_of(exported, [PROGRAMS["images"].inputs])
    quantized = quantize(model, How(dynamic).quantizer(load_backend(backend)), model.inputs)
    _same(quantized.program, tmp_path / "model.pt2", "images")


@pytest.mark.filterwarnings("ignore::DeprecationWarning:torchao")
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_programs_that_torchao_quantizes_are_read(tmp_path: Path) -> None:
    api = pytest.importorskip("torchao.quantization", reason="the extra `quantize`")
    from torchao.utils import unwrap_tensor_subclass

    module, x = nn.Sequential(nn.Linear(64, 32), nn.ReLU()).eval(), torch.randn(2, 64)
    api.quantize_(module, api.Int8DynamicActivationIntxWeightConfig())
    torch.export.save(export(module, (x,)), path := tmp_path / "model.pt2")
    with pytest.raises(UsageError, match=r"found weights in classes of torchao.*unwrap_tensor_subclass"):
        read_program(path)
    torch.export.save(export(unwrap_tensor_subclass(module), (x,)).run_decompositions({}), path)
    assert torch.equal(read_program(path).module()(x), module(x))
