"""EdgeProgramManager: methods, transforms and lowering of whole models, always into a new manager."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
from exir_toy import Cnn, TagNodes, TagOperators, ToyRuntime, diamond, dump, names, random, seeded, targets
from torch import Tensor, fx
from torch.fx.passes.infra.pass_base import PassResult

from npu_assay.partitioners.exir import (
    EdgeError,
    EdgeProgramManager,
    ExirError,
    delegates,
    run_program,
    to_edge,
    transform_program,
)
from npu_assay.partitioners.exir.backend import ConstantPass
from npu_assay.partitioners.exir.ops import edge_op, node_name, target_name
from npu_assay.partitioners.exir.program import output_values

X = random(2, 3)


def two_methods() -> EdgeProgramManager:
    return EdgeProgramManager({"first": diamond(), "second": diamond((4,))}, {"version": 3, "labels": ["a", "b"]})


def state(manager: EdgeProgramManager) -> dict[str, str]:
    return {name: dump(manager.exported_program(name)) for name in sorted(manager.methods)}


def replace_neg(module: fx.GraphModule) -> None:
    """Write x * -1 for -x; the constant is attached to the module."""
    module.register_buffer("minus_one", torch.tensor(-1.0))
    for node in list(module.graph.nodes):
        if node.op == "call_function" and target_name(node.target) == "aten.neg.default":
            with module.graph.inserting_before(node):
                constant = module.graph.get_attr("minus_one")
                name = node_name("aten.mul.Tensor")
                mul = module.graph.create_node(
                    "call_function", edge_op("aten.mul.Tensor"), (node.args[0], constant), name=name
                )
            mul.meta = {key: value for key, value in node.meta.items() if key != "val"}
            node.replace_all_uses_with(mul)
            module.graph.erase_node(node)


def test_single_program_is_called_forward() -> None:
    manager = EdgeProgramManager(diamond())
    assert (manager.methods, manager.config_methods) == ({"forward"}, set())
    assert dump(manager.exported_program()) == dump(diamond())


def test_methods_and_config_methods() -> None:
    manager = two_methods()
    assert manager.methods == {"first", "second"}
    assert manager.config_methods == {"version", "labels"}
    assert manager.constant_methods == {"version": 3, "labels": ["a", "b"]}
    with pytest.raises(
        ExirError, match=r"method_name: unknown method: found 'forward', expected one of \['first', 'se"
    ):
        manager.exported_program()


def test_whole_model_with_delegates_and_fallback() -> None:
    module, x = seeded(Cnn()), random(1, 3, 8, 8)
    manager = to_edge(torch.export.export(module, (x,)))
    before = state(manager)
    lowered = manager.to_backend(TagOperators())
    assert state(manager) == before
    program = lowered.exported_program()
    assert [m.backend_id for m in delegates(program).values()] == ["ToyBackend"] * 2
    assert {"aten.convolution.default", "aten.addmm.default"} < set(targets(program))
    runtime = ToyRuntime()
    other = random(1, 3, 8, 8, seed=9)
    found = run_program(program, [other], {"ToyBackend": runtime})
    assert all(torch.equal(a, b) for a, b in zip(found, run_program(manager.exported_program(), [other]), strict=True))
    assert all(torch.allclose(a, b) for a, b in zip(found, module(other), strict=True))
    assert runtime.runs == 2
    assert state(manager.to_backend(TagOperators())) == state(lowered)


def test_partitioner_for_every_method_or_for_some() -> None:
    manager = two_methods()
    partitioner = TagNodes({"t": ["aten_relu_default"]})
    everywhere = manager.to_backend(partitioner)
    assert [len(delegates(everywhere.exported_program(m))) for m in ("first", "second")] == [1, 1]
    some = manager.to_backend({"second": partitioner})
    assert [len(delegates(some.exported_program(m))) for m in ("first", "second")] == [0, 1]
    assert some.exported_program("first") is not manager.exported_program("first")
    assert dump(some.exported_program("first")) == dump(manager.exported_program("first"))
    assert some.constant_methods == manager.constant_methods


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda m: m.to_backend({"third": TagOperators()}), "partitioner: unknown method: found 'third'"),
        (lambda m: m.to_backend(TagNodes), r"the class TagNodes, which takes arguments, expected an instance"),
        (lambda m: m.to_backend({"first": TagNodes}), "found the class TagNodes, which takes arguments"),
        (lambda m: m.to_backend([TagOperators()]), "found an object of type list"),
        (lambda m: m.to_backend({"first": None}), "found an object of type NoneType"),
        (lambda m: m.transform({"third": []}), "passes: unknown method: found 'third'"),
        (lambda m: m.transform(replace_neg), "passes of the wrong type: found function, expected a list"),
        (lambda m: m.transform({"first": replace_neg}), "passes of the wrong type: found function"),
        (lambda m: m.transform([None]), "passes: not a pass: found NoneType"),
        (lambda m: m.transform([lambda module: 3]), "<lambda>: a pass returned something unusable: found int"),
        (lambda m: EdgeProgramManager({}), "edge_programs: no programs"),
        (lambda m: EdgeProgramManager(dict[str, Any](f=torch.nn.Identity())), "found Identity for method 'f'"),
    ],
)
def test_refuses(act: Callable[[EdgeProgramManager], Any], message: str) -> None:
    manager = two_methods()
    before = state(manager)
    with pytest.raises(ExirError, match=message):
        act(manager)
    assert state(manager) == before


def test_refuses_aten_programs() -> None:
    program = torch.export.export(seeded(Cnn()), (random(1, 3, 8, 8),))
    with pytest.raises(ExirError, match=r"method 'forward': program of another dialect: found [A-Z]+, expected EDGE"):
        EdgeProgramManager(program)


def returning_a_copy(module: fx.GraphModule) -> fx.GraphModule:
    graph = fx.Graph()
    graph.output(graph.graph_copy(module.graph, {}))
    twin = fx.GraphModule(module, graph)
    replace_neg(twin)
    return twin


def returning_a_result(module: fx.GraphModule) -> PassResult:
    replace_neg(module)
    return PassResult(module, True)


@pytest.mark.parametrize("graph_pass", [replace_neg, returning_a_copy, returning_a_result])
def test_transform(graph_pass: Callable[[fx.GraphModule], Any]) -> None:
    manager = EdgeProgramManager(diamond())
    before = state(manager)
    changed = manager.transform([graph_pass])
    assert state(manager) == before
    program = changed.exported_program()
    assert "aten.neg.default" not in targets(program)
    assert names(program)[:3] == ["_lifted_tensor_constant1", "x", "w"]
    assert program.state_dict["_lifted_tensor_constant1"].tolist() == -1
    assert all("val" in n.meta for n in program.graph.nodes if n.op != "output")
    assert all(torch.equal(a, b) for a, b in zip(run_program(program, [X]), run_program(diamond(), [X]), strict=True))
    assert state(manager.transform([graph_pass])) == state(changed)
    assert len(delegates(changed.to_backend(TagOperators()).exported_program())) == 6


def test_transform_some_methods() -> None:
    changed = two_methods().transform({"first": [replace_neg]})
    assert "aten.neg.default" not in targets(changed.exported_program("first"))
    assert dump(changed.exported_program("second")) == state(two_methods())["second"]
    assert state(two_methods().transform([])) == state(two_methods())


def test_constants_that_a_pass_orphans_are_dropped() -> None:
    def forget(module: fx.GraphModule) -> None:
        mul = next(n for n in module.graph.nodes if n.name == "aten_mul_tensor")
        add = next(n for n in module.graph.nodes if n.name == "aten_add_tensor_1")
        add.args = (mul.args[0], mul.args[0])
        module.graph.erase_node(mul)

    program = transform_program(diamond(), [forget])
    assert "w" not in names(program)
    assert dict(program.state_dict) == {}


def test_constant_pass_reads_weights() -> None:
    seen: dict[str, Tensor] = {}

    class Reads(ConstantPass):
        def __call__(self, module: fx.GraphModule, constants: Mapping[str, Tensor]) -> None:
            seen.update(constants)

    program = diamond()
    transform_program(program, [Reads()])
    assert list(seen) == ["w"]
    assert torch.equal(seen["w"], program.state_dict["w"])


def _erase_input(module: fx.GraphModule) -> None:
    x = next(n for n in module.graph.nodes if n.name == "x")
    x.replace_all_uses_with(next(n for n in module.graph.nodes if n.name == "w"))
    module.graph.erase_node(x)


def _add_input(module: fx.GraphModule) -> None:
    with module.graph.inserting_before(next(iter(module.graph.nodes))):
        late = module.graph.placeholder("late")
    late.meta["val"] = next(n for n in module.graph.nodes if n.name == "x").meta["val"]


def _drop_output(module: fx.GraphModule) -> None:
    output = module.graph.output_node()
    output.args = (list(output_values(module.graph))[:1],)


def _leave_aten(module: fx.GraphModule) -> None:
    next(n for n in module.graph.nodes if n.name == "aten_neg_default").target = torch.ops.aten.neg.default


@pytest.mark.parametrize(
    ("graph_pass", "message"),
    [
        (_erase_input, r"placeholders: a pass changed the user inputs: found \[\], expected \['x'\]"),
        (_add_input, "late: a pass added an input"),
        (_drop_output, "output: a pass changed the number of outputs: found 1, expected 2"),
        (_leave_aten, "aten_neg_default: operator of another dialect: found torch operator aten.neg.default"),
    ],
)
def test_passes_that_leave_an_invalid_program(graph_pass: Callable[[fx.GraphModule], Any], message: str) -> None:
    with pytest.raises(EdgeError, match=message):
        transform_program(diamond(), [graph_pass])
