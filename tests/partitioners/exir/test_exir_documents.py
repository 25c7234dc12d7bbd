"""What the official documents print: module paths, names, signatures and defaults, and every way to call them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest
import torch
from exir_documented import EXPORT, Model, X, printed
from exir_toy import TagNodes, TagOperators, diamond, seeded

from npu_assay.partitioners.exir import EdgeProgram, delegates, to_edge, to_edge_transform_and_lower
from npu_assay.partitioners.exir.backend.backend_api import LoweredBackendModule, to_backend
from npu_assay.partitioners.exir.backend.backend_details import BackendDetails, enforcedmethod
from npu_assay.partitioners.exir.backend.partitioner import Partitioner
from npu_assay.partitioners.exir.errors import BackendError, ExirError
from npu_assay.partitioners.xnnpack import XnnpackPartitioner

REQUIRED = inspect.Parameter.empty
API, DETAILS = f"{EXPORT}.backend.backend_api", f"{EXPORT}.backend.backend_details"
SPECS, PARTITIONER = f"{EXPORT}.backend.compile_spec_schema", f"{EXPORT}.backend.partitioner"
ETHOS, NEUTRON, XNNPACK = "ethosu", "neutron", "xnnpack"

CALLABLES: dict[tuple[str, str], dict[str, Any]] = {
    # Export to ExecuTorch API Reference
    (EXPORT, "to_edge"): {"programs": REQUIRED, "constant_methods": None, "compile_config": None},
    (EXPORT, "EdgeProgramManager"): {"edge_programs": REQUIRED, "constant_methods": None},
    (EXPORT, "EdgeProgramManager.exported_program"): {"self": REQUIRED, "method_name": "forward"},
    (EXPORT, "EdgeProgramManager.to_backend"): {"self": REQUIRED, "partitioner": REQUIRED},
    (EXPORT, "EdgeProgramManager.to_executorch"): {"self": REQUIRED, "config": None},
    (EXPORT, "EdgeProgramManager.transform"): {"self": REQUIRED, "passes": REQUIRED},
    (EXPORT, "ExecutorchProgramManager"): {
        "execution_programs": REQUIRED,
        "config_methods": None,
        "backend_config": None,
    },
    (EXPORT, "ExecutorchProgramManager.dump_executorch_program"): {"self": REQUIRED, "verbose": False},
    (EXPORT, "ExecutorchProgramManager.exported_program"): {"self": REQUIRED, "method_name": "forward"},
    (API, "LoweredBackendModule"): {
        "edge_program": REQUIRED,
        "backend_id": REQUIRED,
        "processed_bytes": REQUIRED,
        "compile_specs": REQUIRED,
    },
    (API, "LoweredBackendModule.program"): {"self": REQUIRED, "emit_stacktrace": False},
    # The partitioner's source
    (DETAILS, "enforcedmethod"): {"func": REQUIRED},
    (SPECS, "CompileSpec"): {"key": REQUIRED, "value": REQUIRED},
    (PARTITIONER, "DelegationSpec"): {"backend_id": REQUIRED, "compile_specs": REQUIRED},
    (PARTITIONER, "PartitionResult"): {"tagged_exported_program": REQUIRED, "partition_tags": REQUIRED},
    (PARTITIONER, "Partitioner"): {"spec": {}},
    (PARTITIONER, "Partitioner.__call__"): {"self": REQUIRED, "exported_program": REQUIRED},
    (PARTITIONER, "Partitioner.partition"): {"self": REQUIRED, "exported_program": REQUIRED},
    (PARTITIONER, "Partitioner.ops_to_not_decompose"): {"self": REQUIRED, "ep": REQUIRED},
    # Arm Ethos-U, Partitioner API
    (ETHOS, "EthosUPartitioner"): {"compile_spec": REQUIRED, "additional_checks": None},
    (ETHOS, "EthosUPartitioner.ops_to_not_decompose"): {"self": REQUIRED, "ep": REQUIRED},
    (ETHOS, "EthosUPartitioner.partition"): {"self": REQUIRED, "exported_program": REQUIRED},
    (f"{ETHOS}.compile_spec", "EthosUCompileSpec"): {},
    # XNNPACK, Partitioner API: all by default
    (XNNPACK, "XnnpackPartitioner"): {
        "configs": None,
        "config_precisions": None,
        "per_op_mode": False,
        "verbose": False,
    },
    # NXP eIQ Neutron, Partitioner API: the first three in this order
    (NEUTRON, "NeutronPartitioner"): {
        "compile_spec": None,
        "neutron_target_spec": None,
        "custom_delegation_options": None,
    },
    (NEUTRON, "NeutronCompileSpecBuilder"): {},
}
PROPERTIES = {
    (EXPORT, "EdgeProgramManager"): ("config_methods", "methods"),
    (EXPORT, "ExecutorchProgramManager"): ("buffer", "config_methods", "methods"),
    (API, "LoweredBackendModule"): ("backend_id", "processed_bytes", "compile_specs", "original_module"),
    (PARTITIONER, "Partitioner"): ("spec",),
}
KEYWORDS = {
    (NEUTRON, "NeutronPartitioner"): ("preserve_ops",),
    **dict.fromkeys(
        ((NEUTRON, "generate_neutron_compile_spec"), (NEUTRON, "NeutronCompileSpecBuilder.neutron_compile_spec")),
        (
            "config",
            "extra_flags",
            "operators_not_to_delegate",
            "use_neutron_for_format_conversion",
            "fetch_constants_to_sram",
            "dump_kernel_selection_code",
        ),
    ),
}


@pytest.mark.parametrize("place", CALLABLES, ids=".".join)
def test_a_printed_signature_is_taken(place: tuple[str, str]) -> None:
    """The printed parameters come first, in this order and with these defaults; all others may be left out."""
    found = list(inspect.signature(printed(place)).parameters.values())
    wanted = CALLABLES[place]
    assert {one.name: one.default for one in found[: len(wanted)]} == wanted
    assert [one.name for one in found[: len(wanted)]] == list(wanted)
    if wanted:
        kinds = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
        assert all(one.default is not REQUIRED or one.kind in kinds for one in found[len(wanted) :])


@pytest.mark.parametrize("place", PROPERTIES, ids=".".join)
def test_printed_properties_are_there(place: tuple[str, str]) -> None:
    for name in PROPERTIES[place]:
        assert not inspect.isfunction(inspect.getattr_static(printed(place), name))


@pytest.mark.parametrize("place", KEYWORDS, ids=".".join)
def test_printed_options_are_keywords(place: tuple[str, str]) -> None:
    assert set(KEYWORDS[place]) <= inspect.signature(printed(place)).parameters.keys()


def test_one_definition_stands_behind_each_path() -> None:
    for name in ("to_backend", "LoweredBackendModule", "CompileSpec", "Partitioner", "PartitionResult"):
        modules = {API: ("to_backend", "LoweredBackendModule"), SPECS: ("CompileSpec",)}
        home = next((module for module, names in modules.items() if name in names), PARTITIONER)
        assert printed((EXPORT, name)) is printed((home, name))
    assert {one.name for one in printed((XNNPACK, "ConfigPrecisionType"))} == {"FP32", "STATIC_QUANT", "DYNAMIC_QUANT"}


# ------------------------------------------------------------------------------------ enforced methods


def test_enforced_methods_must_be_implemented() -> None:
    class Base:
        @enforcedmethod
        def plain(self) -> int:
            return 3

    assert Base.plain.__enforcedmethod__ and Partitioner.partition.__enforcedmethod__  # type: ignore[attr-defined]
    assert BackendDetails.preprocess.__enforcedmethod__  # type: ignore[attr-defined]
    assert Base().plain() == 3

    class Lazy(Partitioner):
        pass

    class Strict(TagOperators):
        @enforcedmethod
        def name(self) -> str:
            return ""

    class Named(Strict):
        def name(self) -> str:
            return "named"

    classes: tuple[type[Any], ...] = (Lazy, Strict)
    for incomplete in classes:
        with pytest.raises(TypeError, match="abstract"):
            incomplete()
        with pytest.raises(ExirError, match=f"found the class {incomplete.__name__} without (name|partition)"):
            to_backend(diamond(), incomplete)
    assert Named().name() == "named"


def test_a_compiler_without_its_enforced_method_is_refused() -> None:
    class Unwritten(BackendDetails):
        pass

    with pytest.raises(BackendError, match=r"Unwritten: incomplete backend: found no preprocess\(\)"):
        to_backend("Unwritten", diamond(), [])


# ------------------------------------------------------------------------------------ to_backend

TAG = "aten_relu_default"


class TagRelu(TagNodes):
    """A partitioner that is made without arguments."""

    def __init__(self) -> None:
        super().__init__({"t": [TAG, "aten_neg_default"]}, constants=True)


FORMS: dict[str, Callable[[], Any]] = {
    "whole, by position": lambda: to_backend("ToyBackend", diamond(), []),
    "whole, by name": lambda: to_backend(backend_id="ToyBackend", edge_program=diamond(), compile_specs=[]),
    "whole, other name": lambda: to_backend("ToyBackend", edge_graph_module=diamond(), compile_specs=[]),
    "parts, instance": lambda: to_backend(diamond(), TagRelu()),
    "parts, class": lambda: to_backend(diamond(), TagRelu),
    "parts, by name": lambda: to_backend(edge_program=diamond(), partitioner=TagRelu),
    "graph module, class": lambda: to_backend(diamond().graph_module, TagRelu),
    "graph module, by name": lambda: to_backend(graph_module=diamond().module(), partitioner=TagRelu),
    "args": lambda: to_backend(args=diamond(), partitioner=TagRelu()),
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_every_printed_form_of_to_backend(form: Callable[[], Any]) -> None:
    found = form()
    if isinstance(found, LoweredBackendModule):
        assert found.backend_id == "ToyBackend"
        return
    module = found.graph_module if isinstance(found, EdgeProgram) else found
    assert [name for name, _ in module.named_children() if name.startswith("lowered")] == ["lowered_module_0"]


@pytest.mark.parametrize("partitioner", [XnnpackPartitioner, XnnpackPartitioner(), TagOperators])
def test_a_graph_module_stays_a_function_of_its_inputs(partitioner: Any) -> None:
    model = seeded(Model())
    program = to_edge(torch.export.export(model, (X,))).exported_program()
    whole = program.module()
    before = [str(node) for node in whole.graph.nodes]
    lowered = to_backend(whole, partitioner)
    assert isinstance(lowered, torch.fx.GraphModule)
    assert any(name.startswith("lowered_module_") for name, _ in lowered.named_children())
    torch.testing.assert_close(lowered(X), model(X))
    assert [str(node) for node in whole.graph.nodes] == before
    # What a delegate has taken along stays in nobody else's hands.
    expected = {"p_block_0_weight", "p_block_0_bias"} if partitioner is TagOperators else set()
    left = {f"p_{name.replace('.', '_')}" for name, _ in lowered.named_parameters() if name.startswith("block")}
    assert left == expected


class Wrapped:
    """Something that has a program."""

    program = diamond()


def test_a_form_of_ones_own_can_be_registered() -> None:
    @to_backend.register  # type: ignore[attr-defined,untyped-decorator]  # a function with attributes
    def _(args: Wrapped, partitioner: Any) -> Any:
        return to_backend(args.program, partitioner)

    assert len(delegates(to_backend(Wrapped(), TagRelu))) == 1


def test_managers_take_classes() -> None:
    edge = to_edge(torch.export.export(seeded(Model()), (X,)))
    for chosen in (TagOperators, {"forward": TagOperators}, {"forward": TagOperators()}):
        assert len(delegates(edge.to_backend(chosen).exported_program())) == 2
        assert len(delegates(edge.to_backend(partitioner=chosen).exported_program())) == 2
    program = torch.export.export(seeded(Model()), (X,))
    assert len(delegates(to_edge_transform_and_lower(program, partitioner=[TagOperators]).exported_program())) == 2
