"""`.pt2` archives that mean to run, read or write something, by the place in torch's reading code that would let them.

Each creates the file MARKER in the current folder if torch unpickles, evaluates, imports or calls what it brings.
"""

from __future__ import annotations

import io
import json
import pickle
import struct
import zipfile
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram, export

MARKER = "something_was_run"
CODE = f"open('{MARKER}','w').write('x')"
JSON = Any
MODEL = "models/model.json"
WEIGHTS, CONSTANTS = "data/weights/model_weights_config.json", "data/constants/model_constants_config.json"


class Net(nn.Module):
    """A parameter, a buffer that changes, a constant, an open size, inputs by name, a region and two branches."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.fc, self.k = nn.Linear(4, 4), torch.ones(4)
        self.register_buffer("b", torch.ones(4))

    def forward(self, x: Tensor, *, state: dict[str, Tensor], mode: str) -> dict[str, Any]:
        y = torch.relu(self.fc(x) + self.k).reshape(x.shape[0] * 2, 2)
        with torch.no_grad():
            z = state["h"] + self.b
        self.b.add_(1)
        low, high = torch.chunk(z, 2, -1)
        return {"y": y * x.shape[0], "z": torch.cond(low.sum() > 0, torch.neg, torch.abs, (high,))}


def program() -> ExportedProgram:
    """The program that all of them are changes of."""
    inputs, state = (torch.ones(2, 4),), {"h": torch.ones(4)}
    sizes = {"x": {0: Dim("batch", max=8)}, "state": {"h": None}, "mode": None}
    return export(Net().eval(), inputs, {"state": state, "mode": "plain"}, dynamic_shapes=sizes)


class Archive:
    """The records of an archive by name; its JSON as data, which is written when the archive is."""

    def __init__(self, data: bytes) -> None:
        with zipfile.ZipFile(io.BytesIO(data)) as given:
            found = {name.partition("/")[2]: given.read(name) for name in given.namelist()}
        self.json = {name: json.loads(content) for name, content in found.items() if name.endswith(".json")}
        self.records = {name: content for name, content in found.items() if name not in self.json}
        self.how: Callable[[bytes], bytes] = bytes

    @property
    def graph(self) -> JSON:
        return self.json[MODEL]["graph_module"]["graph"]

    @property
    def signature(self) -> JSON:
        return self.json[MODEL]["graph_module"]["signature"]

    @property
    def call(self) -> JSON:
        return self.json[MODEL]["graph_module"]["module_call_graph"][0]["signature"]

    def node(self, part: str) -> JSON:
        """The first node that calls such an operator."""
        return next(each for each in self.graph["nodes"] if part in each["target"])

    def branch(self) -> JSON:
        """The graph within the first branch of the condition."""
        return self.node("higher_order.cond")["inputs"][1]["arg"]["as_graph"]

    def data(self) -> bytes:
        made = io.BytesIO()
        with zipfile.ZipFile(made, "w") as taken:
            for name, content in {**self.records, **{k: json.dumps(v).encode() for k, v in self.json.items()}}.items():
                taken.writestr(f"archive/{name}", content)
        return self.how(made.getvalue())


def saved(exported: ExportedProgram) -> bytes:
    torch.export.save(exported, made := io.BytesIO())
    return made.getvalue()


class _Evil:
    def __reduce__(self) -> tuple[Any, ...]:
        return eval, (CODE,)


def _torch_pickle() -> bytes:
    torch.save(_Evil(), made := io.BytesIO())
    return made.getvalue()


Change = Callable[[Archive], None]
HOSTILE: dict[str, dict[str, Change]] = {}
"""By kind and name."""


def _of(kind: str) -> Callable[[Change], Change]:
    def keep(change: Change) -> Change:
        HOSTILE.setdefault(kind, {})[change.__name__.strip("_")] = change
        return change

    return keep


def _several(kind: str, change: Callable[[Archive, Any], None], cases: Mapping[str, Any]) -> None:
    for name, case in cases.items():
        HOSTILE.setdefault(kind, {})[name] = lambda a, case=case: change(a, case)  # type: ignore[misc]


# ------------------------------------------------------------------------------------ pickles


def _payload(archive: Archive, where: tuple[str, str, bytes, Any]) -> None:
    config, name, data, pickled = where
    values = archive.json[config]["config"]
    first = next(iter(values.values()))
    values["fc.weight" if config == WEIGHTS else "k"] = {**first, "path_name": name, "use_pickle": pickled}
    archive.records[f"{config.rpartition('/')[0]}/{name}"] = data


PICKLED = pickle.dumps(_Evil()).ljust(128, b"\0")
_several(
    "pickle",
    _payload,
    {
        "an opaque object": (CONSTANTS, "opaque_obj_0", PICKLED, False),
        "an opaque object, said to be pickled": (CONSTANTS, "opaque_obj_0", PICKLED, True),
        "a custom object": (CONSTANTS, "custom_obj_0", PICKLED, False),
        "a pickled weight": (WEIGHTS, "weight_0", _torch_pickle(), True),
        "a pickled constant": (CONSTANTS, "tensor_0", _torch_pickle(), True),
        "pickled if that is true": (WEIGHTS, "weight_0", _torch_pickle(), 1),
        "a weight out of its folder": (WEIGHTS, "../constants/opaque_obj_0", PICKLED, False),
        "a weight by another name": (WEIGHTS, "model.pt", _torch_pickle(), True),
        "a constant that begins like a tensor": (CONSTANTS, "tensor_/../opaque_obj_0", PICKLED, False),
    },
)
_several(
    "pickle",
    lambda archive, records: archive.records.update(records),
    {
        "legacy weights": {"data/weights/model.pt": _torch_pickle()},
        "legacy constants": {"data/constants/model.pt": _torch_pickle()},
        "weights of the format before": {"serialized_state_dict.pt": _torch_pickle(), "version": b"8.20"},
        "sample inputs of the format before": {"serialized_example_inputs.pt": _torch_pickle()},
        "a file of torch.save": {"data.pkl": PICKLED},
    },
)


@_of("pickle")
def _the_format_before(archive: Archive) -> None:
    """torch.export.load falls back to it after a RuntimeError."""
    old = {"serialized_exported_program.json": json.dumps(archive.json.pop(MODEL)).encode(), "version": b"8.20"}
    archive.records = {**old, "serialized_constants.pt": _torch_pickle(), "serialized_state_dict.pt": b""}
    archive.json.clear()


# ------------------------------------------------------------------------------------ records


_several(
    "record",
    lambda archive, name: archive.records.update({name: b"\x7fELF"}),
    {
        "a compiled library": "data/aotinductor/model/model.so",
        "its weights": "data/aotinductor/model/weights_config.json",
        "a lowered program": "data/executorch/model.pte",
        "weights elsewhere": "xl_model_weights/model_param_config",
        "a second model": "models/other.json",
        "a folder": "models/",
        "a path upwards": "../../etc/passwd",
        "a name with a newline": "data/weights/weight_0\n",
        "a device's files": "data/mtia/x",
    },
)


@_of("record")
def _the_same_name_twice(archive: Archive) -> None:
    archive.how = lambda data: data.replace(b"archive/byteorder", b"archive/data/weig", 9)


@_of("record")
def _two_folders(archive: Archive) -> None:
    archive.how = lambda data: data.replace(b"archive/byteorder", b"brchive/byteorder")


@_of("record")
def _another_format(archive: Archive) -> None:
    archive.records["archive_format"] = b"pt3"


@_of("record")
def _another_byte_order(archive: Archive) -> None:
    archive.records["byteorder"] = b"big"


@_of("record")
def _no_program(archive: Archive) -> None:
    del archive.json[MODEL]


# ------------------------------------------------------------------------------------ sizes, which sympy evaluates


def _expression(text: str) -> JSON:
    return {"as_expr": {"expr_str": text, "hint": {"as_int": 2}}}


def _size(archive: Archive, text: str) -> None:
    archive.graph["tensor_values"]["x"]["sizes"][0] = _expression(text)


_several(
    "size",
    _size,
    {
        "code": CODE,
        "a call": f"__import__('os').system('touch {MARKER}')",
        "a call in a product": f"Mul(Integer(2), {CODE})",
        "an attribute": f"Symbol('s77').__class__.__init__.__globals__['sys'].modules['os'].system('touch {MARKER}')",
        "a lambda": f"(lambda: {CODE})()",
        "a comprehension": f"[{CODE} for _ in (1,)][0]",
        "an assumption": f"Symbol('s77', positive={CODE})",
        "the name of a symbol": f"Symbol('s77{CODE}')",
        "a string in a product": f'Mul(Integer(2), "{CODE}")',
        "a function of sympy": f"sympify({CODE!r})",
        "a function's name": f"Function({CODE!r})(2)",
        "a starred call": f"Mul(*[{CODE}])",
        "an assignment": f"(s := {CODE})",
        "a formatted text": f'f"{{{CODE}}}"',
        "a power without an end": "Pow(Integer(9), Pow(Integer(9), Integer(99)))",
        "a power of powers": f"{'Pow(' * 40}Integer(9){', Integer(9))' * 40}",
        "a shift without an end": "Integer(1) << 99999999999",
        "a long one": "s77" + "+s77" * 2_000,
        "a deep one": "-" * 3_000 + "s77",
        "a large number": f"Integer({9**80})",
        "a symbol that is counted to": "Symbol('u99999999999', integer=True)",
        "a name of Python": "copyright",
    },
)


@_of("size")
def _a_stride(archive: Archive) -> None:
    archive.graph["tensor_values"]["x"]["strides"][0] = _expression(CODE)


@_of("size")
def _an_offset(archive: Archive) -> None:
    archive.graph["tensor_values"]["x"]["storage_offset"] = _expression(CODE)


@_of("size")
def _a_number(archive: Archive) -> None:
    archive.graph["sym_int_values"][next(iter(archive.graph["sym_int_values"]))] = _expression(CODE)


@_of("size")
def _a_truth(archive: Archive) -> None:
    archive.graph["sym_bool_values"]["x"] = {"as_expr": {"expr_str": CODE, "hint": None}}


@_of("size")
def _a_real(archive: Archive) -> None:
    archive.graph["sym_float_values"]["x"] = {"as_expr": {"expr_str": CODE, "hint": None}}


@_of("size")
def _within_a_branch(archive: Archive) -> None:
    next(iter(archive.branch()["graph"]["tensor_values"].values()))["sizes"][0] = _expression(CODE)


@_of("size")
def _of_a_weight(archive: Archive) -> None:
    archive.json[WEIGHTS]["config"]["b"]["tensor_meta"]["sizes"][0] = _expression(CODE)


def _ranges(archive: Archive, name: str) -> None:
    archive.json[MODEL]["range_constraints"][name] = {"min_val": 0, "max_val": 4}


_several("size", _ranges, {"a range that is counted to": "u99999999999", "a range by another name": CODE})
_several(
    "size",
    lambda archive, guards: archive.json[MODEL].update(guards_code=guards),
    {
        "a guard": [f"{CODE} is not None"],
        "a guard with a lambda": [f"(lambda: {CODE})()"],
        "a guard of two lines": [f"True)\n  {CODE}\n  (True"],
        "a guard that is no text": [[CODE]],
        "guards that are no list": CODE,
    },
)


# ------------------------------------------------------------------------------------ names, which FX writes


def _renamed(archive: Archive, names: tuple[str, str]) -> None:
    """One name everywhere."""
    before, after = (json.dumps(name) for name in names)
    archive.json[MODEL] = json.loads(json.dumps(archive.json[MODEL]).replace(before, after))


_several(
    "name",
    _renamed,
    {
        "an input": ("x", f"x={CODE}"),
        "a parameter's input": ("p_fc_weight", f"p={CODE}"),
        "a result": ("relu", f"relu = {CODE}; relu"),
        "a result with a newline": ("relu", f"relu\n    {CODE}\n    relu"),
        "a result with a return": ("relu", f"relu\r    {CODE}"),
        "one of several results": ("getitem_5", f"a = {CODE}; a"),
        "a keyword": ("relu", "lambda"),
        "an empty name": ("relu", ""),
        "the name of a branch": ("true_graph_0", f"a = {CODE}; a"),
        "a branch that hides a method": ("true_graph_0", "forward"),
        "a number's name": ("sym_size_int_1", f"a={CODE}"),
        "a half of a character": ("relu", "\ud800"),
    },
)


@_of("name")
def _an_input_of_a_branch(archive: Archive) -> None:
    archive.branch()["graph"]["inputs"][0]["as_tensor"]["name"] = f"a={CODE}"


@_of("name")
def _of_a_node(archive: Archive) -> None:
    archive.node("relu")["name"] = f"a = {CODE}; a"


@_of("name")
def _of_an_argument(archive: Archive) -> None:
    archive.node("higher_order.cond")["inputs"][0].update(name=f"pred={CODE}, p", kind=2)


@_of("name")
def _in_a_dict_of_arguments(archive: Archive) -> None:
    archive.node("higher_order.cond")["inputs"][3]["arg"] = {"as_string_to_argument": {f"'+{CODE}+'": {"as_int": 1}}}


def _path(archive: Archive, names: tuple[str, str]) -> None:
    before, after = (json.dumps(name) for name in names)
    archive.json = {key: json.loads(json.dumps(each).replace(before, after)) for key, each in archive.json.items()}


_several(
    "name",
    _path,
    {
        "a parameter": ("fc.weight", f'fc."),{CODE},("'),
        "a buffer": ("b", f'b"),{CODE},("'),
        "a constant": ("k", f'k"),{CODE},("'),
        "a path to a class": ("fc.weight", "__class__.__call__"),
        "a path to a method": ("b", "forward"),
        "a path to torch's own": ("b", "_modules"),
        "a path with a newline": ("fc.bias", "fc.\n.bias"),
    },
)


@_of("name")
def _of_an_argument_of_forward(archive: Archive) -> None:
    archive.call["forward_arg_names"][0] = f"x={CODE}"


def _nested(archive: Archive, names: tuple[str, str]) -> None:
    """A key of the inputs."""
    before, after = (json.dumps(json.dumps([name]))[1:-1] for name in names)
    mode = json.dumps(json.dumps(["state", "mode"]))[1:-1]
    changed = json.dumps(json.dumps([names[1], "mode"]))[1:-1]
    archive.call["in_spec"] = archive.call["in_spec"].replace(before, after)
    if names[0] == "state":
        archive.call["in_spec"] = archive.call["in_spec"].replace(mode, changed)
    assert after in archive.call["in_spec"] or changed in archive.call["in_spec"]


_several(
    "name",
    _nested,
    {
        "an input by name": ("state", f"a':{CODE},'b"),
        "a key of an input": ("h", f'h" + {CODE} + "'),
        "a key with a backslash": ("h", "h\\"),
        "a key of two lines": ("h", "h\nb"),
    },
)


def _mode(archive: Archive, text: str) -> None:
    """A text that the model is called with, which torch compares in the Python that it writes."""
    for spec in archive.signature["input_specs"]:
        if "constant_input" in spec:
            spec["constant_input"]["value"] = {"as_string": text}
    archive.graph["inputs"][-1] = {"as_string": text}


_several("name", _mode, {"a text": f"plain' or {CODE} or '", "a text of two lines": f"plain'\n{CODE}"})


# ------------------------------------------------------------------------------------ operators


def _target(archive: Archive, target: str, graph: JSON | None = None) -> None:
    """A call with one text, and with nothing that torch would miss."""
    node = (graph or archive.graph)["nodes"][0]
    text = f"touch {MARKER}" if target.endswith("system") else MARKER
    arguments = [{"name": "filename", "arg": {"as_string": text}, "kind": 1}]
    if "from_file" in target:
        more = {"shared": {"as_bool": True}, "size": {"as_int": 4}}
        arguments += [{"name": name, "arg": arg, "kind": 1} for name, arg in more.items()]
    node.update(target=target, inputs=arguments)


_several(
    "operator",
    _target,
    {
        target: target
        for target in (
            *("torch.os.system", "torch.sys.exit", "torch.load", "torch.save", "torch.hub.load", "torch.jit.load"),
            *("torch.ops.load_library", "torch.ops.import_module", "torch.classes.load_library", "torch.compile"),
            *("torch.serialization.pickle.loads", "torch.utils.cpp_extension.load", "torch.importlib.import_module"),
            *("torch.ops.aten.from_file.default", "torch.ops.aten.from_file.out", "torch.ops.aten.save.default"),
            *("torch.ops.aten.warn.default", "torch.ops.aten._print.default", "torch.ops.aten.relu.__class__"),
            *("torch.ops.aten.relu.default.__call__", "torch.ops.aten.set_.source_Storage", "torch.ops.aten.relu"),
            *("torch.ops.aten.sparse_coo_tensor.indices_size", "torch.ops.aten._nested_view_from_buffer.default"),
            *("torch.ops.higher_order.call_torchbind", "torch.ops.higher_order.triton_kernel_wrapper_mutation"),
            *("torch.ops.higher_order.hints_wrapper", "torch.ops.higher_order.run_const_graph"),
            *("torch.ops.profiler._record_function_enter_new.default", "torch.ops.mine.anything.default"),
            *(
                "torch.ops.quantized.linear.default",
                "torch.ops.c10d.send.default",
                "torch.ops.torchao.swizzle_mm.default",
            ),
            *("_operator.attrgetter", "_operator.methodcaller", "_operator.call", "_operator.__builtins__.get"),
            *("math.factorial", "math.__loader__.load_module", "#os:system", "builtins.eval", "os.system", ""),
        )
    },
)


@_of("operator")
def _in_a_branch(archive: Archive) -> None:
    _target(archive, "torch.os.system", archive.branch()["graph"])


@_of("operator")
def _as_a_branch(archive: Archive) -> None:
    archive.node("higher_order.cond")["inputs"][1]["arg"] = {"as_operator": "torch.os.system"}


@_of("operator")
def _as_an_argument(archive: Archive) -> None:
    archive.node("relu")["inputs"][0]["arg"] = {"as_operator": "torch.os.system"}


# ------------------------------------------------------------------------------------ objects


_OBJECT = {"name": "k", "class_fqn": "__torch__.torch.classes.rnn.CellParamsBase"}


@_of("object")
def _a_value(archive: Archive) -> None:
    archive.graph["custom_obj_values"]["k"] = _OBJECT


@_of("object")
def _an_argument(archive: Archive) -> None:
    archive.node("relu")["inputs"][0]["arg"] = {"as_custom_obj": _OBJECT}


@_of("object")
def _an_input(archive: Archive) -> None:
    archive.graph["inputs"][0] = {"as_custom_obj": _OBJECT}


@_of("object")
def _in_the_signature(archive: Archive) -> None:
    archive.signature["input_specs"][0] = {"custom_obj": {"arg": _OBJECT, "custom_obj_name": "k"}}


@_of("object")
def _a_token(archive: Archive) -> None:
    archive.signature["input_specs"][0] = {"token": {"arg": {"name": "x"}}}


def _enumeration(archive: Archive, where: str) -> None:
    """torch imports the module of an enumeration."""
    tree = {"type": "builtins.dict", "context": json.dumps([{"__enum__": 1, "fqn": "this:A", "name": "b"}])}
    archive.call[where] = json.dumps(
        [1, {**tree, "children_spec": [{"type": None, "context": None, "children_spec": []}]}]
    )


_several("object", _enumeration, {"an enumeration of inputs": "in_spec", "an enumeration of results": "out_spec"})


@_of("object")
def _an_enumeration_of_a_module(archive: Archive) -> None:
    inside = {**archive.call, "out_spec": '[1, {"type": "builtins.dict", "context": "[{\\"__enum__\\": 1}]"}]'}
    archive.json[MODEL]["graph_module"]["module_call_graph"].append({"fqn": "fc", "signature": inside})


@_of("object")
def _another_dialect(archive: Archive) -> None:
    archive.json[MODEL]["verifiers"] = ["EDGE"]


@_of("object")
def _another_protocol(archive: Archive) -> None:
    archive.call["in_spec"] = archive.call["in_spec"].replace("[1,", "[2,", 1)


@_of("object")
def _another_device(archive: Archive) -> None:
    archive.json[WEIGHTS]["config"]["b"]["tensor_meta"]["device"] = {"type": "privateuseone", "index": 0}


@_of("object")
def _another_layout(archive: Archive) -> None:
    archive.graph["tensor_values"]["x"]["layout"] = 2


# ------------------------------------------------------------------------------------ bounds


def _meta(archive: Archive, numbers: tuple[int, int, int, bool]) -> None:
    """Size, stride and offset of a weight; and whether its record is empty."""
    size, stride, offset, empty = numbers
    told = archive.json[WEIGHTS]["config"]["b"]
    told["tensor_meta"].update(
        sizes=[{"as_int": size}], strides=[{"as_int": stride}], storage_offset={"as_int": offset}
    )
    if empty:
        archive.records[f"data/weights/{told['path_name']}"] = b""


_several(
    "bound",
    _meta,
    {
        "past the end": (5, 1, 0, False),
        "far past the end": (4, 1, 2**40, False),
        "a negative size": (-1, 1, 0, False),
        "a negative stride": (4, -1, 3, False),
        "a negative offset": (4, 1, -1, False),
        "more than memory, of one number": (2**50, 0, 0, False),
        "more than memory, of none": (2**50, 1, 0, True),
        "a size of too many bits": (2**70, 1, 0, False),
    },
)


@_of("bound")
def _a_bomb(archive: Archive) -> None:
    def bombed(data: bytes) -> bytes:
        made = io.BytesIO(data)
        with zipfile.ZipFile(made, "a", zipfile.ZIP_DEFLATED) as taken:
            taken.writestr("archive/extra/bomb", bytes(2**24))
        return made.getvalue()

    archive.how = bombed


@_of("bound")
def _a_record_in_another(archive: Archive) -> None:
    """Many entries of the list show the same bytes."""
    archive.records["extra/large"] = bytes(2**16)

    def repeated(data: bytes) -> bytes:
        end = data.rindex(b"PK\5\6")
        count, length, start = struct.unpack_from("<HII", data, end + 10)
        entry = data[data.rindex(b"PK\1\2", 0, data.rindex(b"archive/extra/large")) :]
        size = 46 + len("archive/extra/large")
        more = [entry[: size - 5] + f"{number:05}".encode() for number in range(100)]
        tail = struct.pack("<HHII", count + 100, count + 100, length + 100 * size, start)
        return data[:end] + b"".join(more) + data[end : end + 8] + tail + data[end + 20 :]

    archive.how = repeated


@_of("bound")
def _too_many_records(archive: Archive) -> None:
    archive.records.update({f"extra/{number}": b"" for number in range(100_001)})


@_of("bound")
def _a_list_of_records_without_an_end(archive: Archive) -> None:
    def longer(data: bytes) -> bytes:
        end = data.rindex(b"PK\5\6")
        return data[: end + 12] + struct.pack("<I", 0x7FFFFFFF) + data[end + 16 :]

    archive.how = longer


@_of("bound")
def _a_large_number(archive: Archive) -> None:
    archive.node("relu")["inputs"][0]["arg"] = {"as_int": 10**4000}


def _text(archive: Archive, text: bytes) -> None:
    archive.records[MODEL] = text
    del archive.json[MODEL]


_several(
    "bound",
    _text,
    {
        "deep JSON": b"[" * 200_000 + b"]" * 200_000,
        "deep names": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
        "a long number": b"1" * 10_000,
        "no number": b'{"graph_module": NaN}',
        "no text": b"\xff\xfe",
        "nothing": b"",
    },
)


@_of("bound")
def _graphs_in_graphs(archive: Archive) -> None:
    graph = {**archive.graph, "nodes": []}
    for _ in range(60):
        argument = {"as_graph": {"name": "g", "graph": graph}}
        node = {**archive.node("higher_order.cond"), "inputs": [{"name": "", "arg": argument, "kind": 1}]}
        graph = {**graph, "nodes": [node]}
    archive.graph["nodes"] = graph["nodes"]


@_of("bound")
def _deep_nesting(archive: Archive) -> None:
    archive.call["out_spec"] = "[1, " + '{"type":"builtins.tuple","context":"null","children_spec":[' * 5_000


@_of("bound")
def _deep_marks(archive: Archive) -> None:
    archive.node("relu")["metadata"]["custom"] = "[" * 100_000
