"""`.pt2` archives that mean to run, read or write something, by the place in torch's reading code that would let them.

Each creates the file MARKER in the current folder if torch unpickles, evaluates, imports or calls what it brings. Here
are records, objects and bounds, in `hostile_texts` texts.
"""

from __future__ import annotations

import io
import json
import struct
import zipfile
from typing import Any

from hostile_texts import HOSTILE
from pt2_archives import CONSTANTS, MODEL, PICKLED, WEIGHTS, Archive, of, several, torch_pickle

__all__ = ["HOSTILE"]


# ------------------------------------------------------------------------------------ pickles


def _payload(archive: Archive, where: tuple[str, str, bytes, Any]) -> None:
    config, name, data, pickled = where
    values = archive.json[config]["config"]
    first = next(iter(values.values()))
    values["fc.weight" if config == WEIGHTS else "k"] = {**first, "path_name": name, "use_pickle": pickled}
    archive.records[f"{config.rpartition('/')[0]}/{name}"] = data


several(
    "pickle",
    _payload,
    {
        "an opaque object": (CONSTANTS, "opaque_obj_0", PICKLED, False),
        "an opaque object, said to be pickled": (CONSTANTS, "opaque_obj_0", PICKLED, True),
        "a custom object": (CONSTANTS, "custom_obj_0", PICKLED, False),
        "a pickled weight": (WEIGHTS, "weight_0", torch_pickle(), True),
        "a pickled constant": (CONSTANTS, "tensor_0", torch_pickle(), True),
        "pickled if that is true": (WEIGHTS, "weight_0", torch_pickle(), 1),
        "a weight out of its folder": (WEIGHTS, "../constants/opaque_obj_0", PICKLED, False),
        "a weight by another name": (WEIGHTS, "model.pt", torch_pickle(), True),
        "a constant that begins like a tensor": (CONSTANTS, "tensor_/../opaque_obj_0", PICKLED, False),
    },
)
several(
    "pickle",
    lambda archive, records: archive.records.update(records),
    {
        "legacy weights": {"data/weights/model.pt": torch_pickle()},
        "legacy constants": {"data/constants/model.pt": torch_pickle()},
        "weights of the format before": {"serialized_state_dict.pt": torch_pickle(), "version": b"8.20"},
        "sample inputs of the format before": {"serialized_example_inputs.pt": torch_pickle()},
        "a file of torch.save": {"data.pkl": PICKLED},
    },
)


@of("pickle")
def _the_format_before(archive: Archive) -> None:
    """torch.export.load falls back to it after a RuntimeError."""
    old = {"serialized_exported_program.json": json.dumps(archive.json.pop(MODEL)).encode(), "version": b"8.20"}
    archive.records = {**old, "serialized_constants.pt": torch_pickle(), "serialized_state_dict.pt": b""}
    archive.json.clear()


# ------------------------------------------------------------------------------------ records


several(
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


@of("record")
def _the_same_name_twice(archive: Archive) -> None:
    archive.how = lambda data: data.replace(b"archive/byteorder", b"archive/data/weig", 9)


@of("record")
def _two_folders(archive: Archive) -> None:
    archive.how = lambda data: data.replace(b"archive/byteorder", b"brchive/byteorder")


@of("record")
def _another_format(archive: Archive) -> None:
    archive.records["archive_format"] = b"pt3"


@of("record")
def _another_byte_order(archive: Archive) -> None:
    archive.records["byteorder"] = b"big"


@of("record")
def _no_program(archive: Archive) -> None:
    del archive.json[MODEL]


# ------------------------------------------------------------------------------------ objects


_OBJECT = {"name": "k", "class_fqn": "__torch__.torch.classes.rnn.CellParamsBase"}


@of("object")
def _a_value(archive: Archive) -> None:
    archive.graph["custom_obj_values"]["k"] = _OBJECT


@of("object")
def _an_argument(archive: Archive) -> None:
    archive.node("relu")["inputs"][0]["arg"] = {"as_custom_obj": _OBJECT}


@of("object")
def _an_input(archive: Archive) -> None:
    archive.graph["inputs"][0] = {"as_custom_obj": _OBJECT}


@of("object")
def _in_the_signature(archive: Archive) -> None:
    archive.signature["input_specs"][0] = {"custom_obj": {"arg": _OBJECT, "custom_obj_name": "k"}}


@of("object")
def _a_token(archive: Archive) -> None:
    archive.signature["input_specs"][0] = {"token": {"arg": {"name": "x"}}}


def _enumeration(archive: Archive, where: str) -> None:
    """torch imports the module of an enumeration."""
    tree = {"type": "builtins.dict", "context": json.dumps([{"__enum__": 1, "fqn": "this:A", "name": "b"}])}
    archive.call[where] = json.dumps(
        [1, {**tree, "children_spec": [{"type": None, "context": None, "children_spec": []}]}]
    )


several("object", _enumeration, {"an enumeration of inputs": "in_spec", "an enumeration of results": "out_spec"})


@of("object")
def _an_enumeration_of_a_module(archive: Archive) -> None:
    inside = {**archive.call, "out_spec": '[1, {"type": "builtins.dict", "context": "[{\\"__enum__\\": 1}]"}]'}
    archive.json[MODEL]["graph_module"]["module_call_graph"].append({"fqn": "fc", "signature": inside})


@of("object")
def _another_dialect(archive: Archive) -> None:
    archive.json[MODEL]["verifiers"] = ["EDGE"]


@of("object")
def _another_protocol(archive: Archive) -> None:
    archive.call["in_spec"] = archive.call["in_spec"].replace("[1,", "[2,", 1)


@of("object")
def _another_device(archive: Archive) -> None:
    archive.json[WEIGHTS]["config"]["b"]["tensor_meta"]["device"] = {"type": "privateuseone", "index": 0}


@of("object")
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


several(
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


@of("bound")
def _a_bomb(archive: Archive) -> None:
    def bombed(data: bytes) -> bytes:
        made = io.BytesIO(data)
        with zipfile.ZipFile(made, "a", zipfile.ZIP_DEFLATED) as taken:
            taken.writestr("archive/extra/bomb", bytes(2**24))
        return made.getvalue()

    archive.how = bombed


@of("bound")
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


@of("bound")
def _too_many_records(archive: Archive) -> None:
    archive.records.update({f"extra/{number}": b"" for number in range(100_001)})


@of("bound")
def _a_list_of_records_without_an_end(archive: Archive) -> None:
    def longer(data: bytes) -> bytes:
        end = data.rindex(b"PK\5\6")
        return data[: end + 12] + struct.pack("<I", 0x7FFFFFFF) + data[end + 16 :]

    archive.how = longer


@of("bound")
def _a_large_number(archive: Archive) -> None:
    archive.node("relu")["inputs"][0]["arg"] = {"as_int": 10**4000}


def _text(archive: Archive, text: bytes) -> None:
    archive.records[MODEL] = text
    del archive.json[MODEL]


several(
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


@of("bound")
def _graphs_in_graphs(archive: Archive) -> None:
    graph = {**archive.graph, "nodes": []}
    for _ in range(60):
        argument = {"as_graph": {"name": "g", "graph": graph}}
        node = {**archive.node("higher_order.cond"), "inputs": [{"name": "", "arg": argument, "kind": 1}]}
        graph = {**graph, "nodes": [node]}
    archive.graph["nodes"] = graph["nodes"]


@of("bound")
def _deep_nesting(archive: Archive) -> None:
    archive.call["out_spec"] = "[1, " + '{"type":"builtins.tuple","context":"null","children_spec":[' * 5_000


@of("bound")
def _deep_marks(archive: Archive) -> None:
    archive.node("relu")["metadata"]["custom"] = "[" * 100_000
