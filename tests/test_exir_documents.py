"""What the official documents print: module paths, names, signatures and defaults, and every way to call them."""

from __future__ import annotations

import inspect
import io
import operator
from collections.abc import Callable
from importlib import import_module
from typing import Any

import pytest
import torch
from exir_toy import TagNodes, TagOperators, diamond, random, seeded
from torch import Tensor, nn
from torch.export import ExportedProgram

from npu_assay.partitioners.exir import EdgeProgram, delegates, run_program, to_edge, to_edge_transform_and_lower
from npu_assay.partitioners.exir.backend.backend_api import LoweredBackendModule, to_backend
from npu_assay.partitioners.exir.backend.backend_details import BackendDetails, PreprocessResult, enforcedmethod
from npu_assay.partitioners.exir.backend.compile_spec_schema import CompileSpec
from npu_assay.partitioners.exir.backend.partitioner import Partitioner
from npu_assay.partitioners.exir.errors import BackendError, ExirError
from npu_assay.partitioners.xnnpack import XnnpackPartitioner, XnnpackRuntime

REQUIRED = inspect.Parameter.empty
X = random(2, 3)

EXPORT = "exir"
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


def printed(place: tuple[str, str]) -> Any:
    """What stands at a printed path."""
    module, name = place
    return operator.attrgetter(name)(import_module(f"npu_assay.partitioners.{module}"))


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


class Model(nn.Module):
    """A linear layer with a parameter, and a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.block = nn.Sequential(nn.Linear(3, 4), nn.ReLU())
        self.register_buffer("shift", torch.ones(4))

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        """(2, 3) -> {"y": (2, 4)}."""
        return {"y": self.block(x) + self.get_buffer("shift")}


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


# ------------------------------------------------------------------------------------ programs as text and records


def test_stack_traces_are_emitted_on_request() -> None:
    edge = to_edge(torch.export.export(seeded(Model()), (X,)))
    lowered = edge.to_backend(TagOperators())
    first, *_ = delegates(lowered.exported_program()).values()
    (plain,), (traced,) = (first.program(emit_stacktrace=on).plans[0].chains for on in (False, True))
    assert plain.stacktrace == () and plain.instructions == traced.instructions
    ((*_, frame),) = traced.stacktrace
    assert frame.filename.endswith((".py",)) and frame.lineno > 0 and frame.context
    config = printed((EXPORT, "ExecutorchBackendConfig"))(emit_stacktrace=True)
    program = lowered.to_executorch(config)
    (chain,) = program.executorch_program.plans[0].chains
    assert len(chain.stacktrace) == len(chain.instructions) and all(chain.stacktrace)
    read = import_module("npu_assay.partitioners.exir.pte").read
    assert read(program.buffer) == read(import_module("npu_assay.partitioners.exir.pte").write(read(program.buffer)))
    assert read(program.buffer).plans[0].chains[0].stacktrace == chain.stacktrace


TABLES = """
Program ExecutionPlan ContainerMetadata EValue Tensor AllocationDetails Chain Instruction KernelCall DelegateCall Int
IntList Operator BackendDelegate BackendDelegateDataReference DataSegment SubsegmentOffsets
"""
FIELDS = """
version execution_plan constant_buffer backend_delegate_data segments constant_segment mutable_data_segments
named_data name container_meta_type values inputs outputs chains operators delegates non_const_buffer_sizes
encoded_inp_str encoded_out_str val_type val scalar_type storage_offset sizes dim_order requires_grad
data_buffer_idx allocation_info layout shape_dynamism extra_tensor_info memory_id offset_low offset_high
instructions stacktrace instr_args_type instr_args op_index args delegate_index overload id processed
compile_specs location index offset size segment_index offsets int_val items
"""
"""Tables of program.fbs, and fields that the file of a small program has."""


def test_the_verbose_dump_has_the_names_of_the_schema() -> None:
    edge = to_edge(torch.export.export(seeded(Model()), (X,)))
    out = io.StringIO()
    edge.to_backend(TagOperators()).to_executorch().dump_executorch_program(verbose=True, out=out)
    text = out.getvalue()
    assert [name for name in TABLES.split() if f"{name}(" not in text] == []
    assert [name for name in FIELDS.split() if f" {name}=" not in text] == []
    assert {line.strip().partition("=")[0] for line in text.splitlines() if "=" in line} <= set(FIELDS.split())


# ------------------------------------------------------------------------------------ data of several methods


class Double(nn.Module):
    """A linear layer that another method has as well."""

    def __init__(self, linear: nn.Module, sign: int) -> None:
        super().__init__()
        self.linear, self.sign = linear, sign

    def forward(self, x: Tensor) -> Tensor:
        """(2, 16) -> (2, 24)."""
        y: Tensor = self.linear(x)
        return torch.relu(y) if self.sign > 0 else -y


def two_methods() -> dict[str, ExportedProgram]:
    linear = seeded(nn.Linear(16, 24))
    x = random(2, 16)
    return {name: torch.export.export(Double(linear, sign), (x,)) for name, sign in (("up", 1), ("down", -1))}


def test_weights_that_methods_share_are_stored_once() -> None:
    programs, x = two_methods(), random(2, 16, seed=4)
    lowered = to_edge_transform_and_lower(programs, partitioner=[XnnpackPartitioner()])
    file = lowered.to_executorch().buffer
    weight = programs["up"].state_dict["linear.weight"].detach().numpy().tobytes()
    assert file.count(weight) == 1
    runtimes = {"XnnpackBackend": XnnpackRuntime()}
    load = import_module("npu_assay.partitioners.exir.pte.run").load
    for name, program in programs.items():
        expected = program.module()(x)
        for found in (
            load(file, runtimes=runtimes).execute(name, [x])[0],
            run_program(lowered.exported_program(name), [x], runtimes)[0],
        ):
            torch.testing.assert_close(found, expected)
    # Alone, a delegate needs nothing beside its blob.
    (alone,) = delegates(
        to_edge_transform_and_lower(programs["up"], partitioner=[XnnpackPartitioner]).exported_program()
    ).values()
    assert alone.named_data_store_output is None and alone.processed_bytes.count(weight) == 1


def test_a_backend_may_compile_all_methods_at_once() -> None:
    class Together(BackendDetails):
        @staticmethod
        def preprocess(edge_program: ExportedProgram, compile_specs: list[CompileSpec]) -> PreprocessResult:
            return PreprocessResult(b"")

        @classmethod
        def preprocess_multimethod(cls, edge_programs: Any, compile_specs: Any) -> Any:
            seen.append({method: len(found) for method, found in edge_programs.items()})
            return answers[0](edge_programs)

    def right(given: Any) -> Any:
        return {method: [PreprocessResult(b"x")] * len(found) for method, found in given.items()}

    answers: list[Callable[[Any], Any]] = [right]
    seen: list[dict[str, int]] = []
    edge = to_edge(two_methods())
    partitioner = TagNodes({"t": ["aten_relu_default", "aten_neg_default"]}, "Together")
    assert edge.to_backend(partitioner).methods == {"up", "down"}
    assert seen == [{"up": 1, "down": 1}]
    wrong: list[Callable[[Any], Any]] = [lambda given: None, lambda given: {}, lambda given: {m: [] for m in given}]
    for one in wrong:
        answers[:] = [one]
        with pytest.raises(BackendError, match=r"Together: preprocess_multimethod\(\) returned something unusable"):
            edge.to_backend(partitioner)


# ------------------------------------------------------------------------------------ arguments of the wrong kind

EDGE = to_edge(torch.export.export(nn.ReLU(), (X,)))
WRONG: dict[str, tuple[Callable[[], Any], str]] = {
    "to_backend": (lambda: EDGE.to_backend(3), "partitioner: not a partitioner: found an object of type int"),  # type: ignore[arg-type]
    "class": (lambda: EDGE.to_backend(nn.ReLU), "found the class ReLU, expected an instance of a Partitioner"),  # type: ignore[arg-type]
    "transform": (lambda: EDGE.transform(3), "passes of the wrong type: found int"),  # type: ignore[arg-type]
    "text": (lambda: EDGE.transform("passes"), "passes of the wrong type: found str"),  # type: ignore[arg-type]
    "to_executorch": (lambda: EDGE.to_executorch(3), "config: configuration of the wrong type: found int"),  # type: ignore[arg-type]
    "etrecord": (lambda: to_edge(EDGE.exported_program(), generate_etrecord=True), "no ETRecord is made: found True"),
    "program": (lambda: printed((EXPORT, "ExecutorchProgramManager"))(3), "execution_programs: .*: found int"),
    "not a program": (
        lambda: printed((EXPORT, "ExecutorchProgramManager"))({"forward": nn.ReLU()}),
        "method 'forward': not a program: found ReLU",
    ),
    "method": (lambda: EDGE.exported_program("nope"), "method_name: unknown method: found 'nope'"),
    "number": (lambda: EDGE.to_executorch().exported_program(3), "method_name: unknown method: found 3"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize(("act", "message"), WRONG.values(), ids=WRONG)
def test_arguments_of_the_wrong_kind_are_one_clear_error(act: Callable[[], Any], message: str) -> None:
    with pytest.raises(ExirError, match=message):
        act()


# ------------------------------------------------------------------------------------ max.dim


class Largest(nn.Module):
    """One of the results of max, or of min."""

    def __init__(self, function: Callable[..., Any], index: int, **options: Any) -> None:
        super().__init__()
        self.function, self.index, self.options = function, index, options

    def forward(self, x: Tensor) -> Tensor:
        """The values or the indices."""
        found: Tensor = self.function(x, **self.options)[self.index]
        return found


@pytest.mark.parametrize("shape", [(2, 5), (2, 5, 3), (2, 3, 4, 4)])
@pytest.mark.parametrize("function", [torch.max, torch.min])
@pytest.mark.parametrize(("index", "keepdim"), [(0, False), (0, True), (1, False)])
def test_one_result_of_max_alone(
    function: Callable[..., Any], index: int, keepdim: bool, shape: tuple[int, ...]
) -> None:
    model, x = Largest(function, index, dim=1, keepdim=keepdim), random(*shape)
    manager = to_edge_transform_and_lower(torch.export.export(model, (x,)), partitioner=[XnnpackPartitioner()])
    (found,) = run_program(manager.exported_program(), [x], {"XnnpackBackend": XnnpackRuntime()})
    assert torch.equal(found, model(x))
    assert manager.to_executorch().buffer
