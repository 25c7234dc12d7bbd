"""A `.pt2` archive as data that tests change, and the register of hostile changes of it."""

from __future__ import annotations

import io
import json
import pickle
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
        self.b: Tensor
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


class Evil:
    def __reduce__(self) -> tuple[Any, ...]:
        return eval, (CODE,)


def torch_pickle() -> bytes:
    torch.save(Evil(), made := io.BytesIO())
    return made.getvalue()


PICKLED = pickle.dumps(Evil()).ljust(128, b"\0")
Change = Callable[[Archive], None]
HOSTILE: dict[str, dict[str, Change]] = {}
"""By kind and name."""


def of(kind: str) -> Callable[[Change], Change]:
    def keep(change: Change) -> Change:
        HOSTILE.setdefault(kind, {})[change.__name__.strip("_")] = change
        return change

    return keep


def several(kind: str, change: Callable[[Archive, Any], None], cases: Mapping[str, Any]) -> None:
    for name, case in cases.items():
        HOSTILE.setdefault(kind, {})[name] = lambda a, case=case: change(a, case)  # type: ignore[misc]
