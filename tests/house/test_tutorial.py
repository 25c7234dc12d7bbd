"""The tutorial, the pages on lowering, Python and .pte files: files, changes, commands, and what they print."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from places import ROOT

pytest.importorskip("torchao", reason="the quantizers are the extra `quantize`")

import torch
from pte_programs import added

from npu_assay.partitioners.ethosu.operators import _EXPORTED
from npu_assay.partitioners.exir import to_edge_transform_and_lower
from npu_assay.partitioners.exir.errors import BackendError
from npu_assay.partitioners.exir.pte import write
from npu_assay.partitioners.exir.pte.run import load
from npu_assay.partitioners.neutron import quantizer as neutron
from npu_assay.partitioners.xnnpack import backend
from npu_assay.partitioners.xnnpack import quantizer as xnnpack

DOCS = ROOT / "docs"
BLOCK = re.compile(r"```python\n(.*?)```|^((?:    [^\n]*\n)+)", re.MULTILINE | re.DOTALL)
NAMED = re.compile(r"`(\w+\.py)`[^`]*:\s*$")


def run(command: str, folder: Path) -> str:
    """What a command prints; the environment's programs come first."""
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    done = subprocess.run(
        command, shell=True, cwd=folder, env={**os.environ, "PATH": path}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


def printed(lines: list[str], output: str) -> None:
    """Each line stands in the output; `...` is anything, spaces are as many as there are."""
    for line in lines:
        pattern = r"\s+".join(re.escape(word).replace(r"\.\.\.", ".*") for word in line.split())
        assert re.search(pattern, " ".join(output.split())), f"{line!r} is not in\n{output}"


def replaced(block: str, folder: Path) -> None:
    """A block of two lines without a file's name: in kws.py the second takes the place of the first."""
    before, after = block.splitlines()
    text = (folder / "kws.py").read_text()
    assert text.count(before) == 1 and text.count("words=12") == 1
    (folder / "kws.py").write_text(text.replace(before, after).replace("words=12", "words=16"))


@pytest.mark.long
def test_the_tutorial(tmp_path: Path) -> None:
    page, commands = (DOCS / "tutorial.md").read_text(), 0
    for found in BLOCK.finditer(page):
        code, lines = found.groups()
        name = NAMED.search(page[: found.start()])
        if code and name:
            (tmp_path / name[1]).write_text(code)
        elif code:
            replaced(code, tmp_path)
        else:
            for part in lines.split("    $ ")[1:]:
                command, *shown = part.strip().splitlines()
                printed(shown, run(command, tmp_path))
                commands += 1
    assert commands == 9
    assert {"explain.html", "explain.json"} == {path.name for path in (tmp_path / "kws").iterdir()}
    assert "explain" in run(f"{sys.executable} part.py && echo explained", tmp_path)


@pytest.mark.long
def test_the_page_on_lowering(tmp_path: Path) -> None:
    page = (DOCS / "lowering.md").read_text()
    code = "\n".join(code for code, _ in BLOCK.findall(page) if code)
    (tmp_path / "page.py").write_text(code)
    difference = re.search(r"largest difference: (\S+)", run(f"{sys.executable} page.py", tmp_path))
    assert difference is not None and float(difference[1]) < 0.05
    for command in re.findall(r"^    \$ (.*)$", page, re.MULTILINE):
        assert run(command, tmp_path)
    for other in ("neutron import backend", "ethosu import ethos_u55 as backend"):
        (tmp_path / "other.py").write_text(code.replace("xnnpack import backend", other))
        assert "largest difference" in run(f"{sys.executable} other.py", tmp_path)


@pytest.mark.long
def test_the_page_on_python(tmp_path: Path) -> None:
    (code,) = (code for code, _ in BLOCK.findall((DOCS / "python.md").read_text()) if code)
    (tmp_path / "page.py").write_text(code)
    shown = ["neutron takes 1 of 2", "aten.convolution.default 0 ... 0", "aten.gelu.default 1 ... None"]
    shown += ["unsupported the operator is not in the support table found: aten.gelu.default hint: at: ('...gelu...',)"]
    printed([*shown, "device against quantized ... dB", "0 ... dB"], run(f"{sys.executable} page.py", tmp_path))


def test_the_page_on_pte_files_gives_a_delegate_its_runtime() -> None:
    x = torch.arange(6.0).reshape(2, 3)
    plain, given = re.findall(r"```python\n(.*?)```", (DOCS / "pte.md").read_text(), re.DOTALL)
    known: dict[str, Any] = {"blob": write(added()), "inputs": [x, x]}
    exec(plain, known)
    assert torch.equal(known["outputs"][0], x + x)
    program = torch.export.export(torch.nn.ReLU(), (x - 1,))
    details = {backend.details.__name__: backend.details}
    manager = to_edge_transform_and_lower(program, backend.passes, [backend.partitioner()], details=details)
    known["blob"] = manager.to_executorch().buffer
    with pytest.raises(BackendError, match=r"or runtimes=\{'XnnpackBackend': backend.runtime\}, or --backend of"):
        load(known["blob"]).execute("forward", [x])
    exec(given, known)
    assert torch.equal(known["loaded"].execute("forward", [x - 1])[0], (x - 1).relu())


def short(operators: Iterable[object]) -> list[str]:
    """The names of torch operators as programs write them, sorted."""
    return sorted({str(each).split(".")[1].strip("_").removesuffix("_copy") for each in operators} - {""})


def test_the_operators_that_each_quantizer_knows() -> None:
    own, later = (neutron.annotated(release) for release in ("1.3", "1.4"))
    aten = torch.ops.aten
    named = (*neutron.CONVOLUTIONS, *neutron.NAMED_PADDING, *neutron.SPLITS, aten.div.Tensor)
    known = {
        "`NeutronQuantizer`": short([*own, *named, aten.linear.default, aten.addmm.default, aten.cat.default]),
        '`NeutronQuantizer("1.4")` also': short({*later} - {*own}),
        "`XnnpackQuantizer`": short([*xnnpack.KEEP_INPUT, *(each for rule in xnnpack.RULES for each in rule.targets)]),
        "`EthosUQuantizer`": short(
            name for name, row in _EXPORTED.items() if (row.annotation or row.rewrite) and name.count(".") == 2
        ),
    }
    rows = dict(re.findall(r"^\| (`\w+Quantizer.*?) \| (\w+(?:, \w+)+) \|$", (DOCS / "lowering.md").read_text(), re.M))
    assert rows == {name: ", ".join(operators) for name, operators in known.items()}
