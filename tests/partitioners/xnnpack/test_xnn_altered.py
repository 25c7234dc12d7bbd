"""XNNPACK's delegates with one thing changed: refused in the words of the rule that they break, or run as they say.

Float numbers are not the same on every machine: of what runs, types and sizes are compared.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from altered import told
from syrupy.assertion import SnapshotAssertion
from xnn_models import MODELS

from npu_assay.partitioners.xnnpack import xnn_check, xnn_format
from npu_assay.partitioners.xnnpack import xnn_schema as schema
from npu_assay.partitioners.xnnpack.runtime import XnnpackRuntime
from npu_assay.partitioners.xnnpack.xnn_model import XModel

NAMES = {"dtype": list(schema.DTYPES), "op": list(schema.OPERATORS)}


def answers(name: str) -> str:
    """What each change of a model gets."""
    model = xnn_format.read(xnn_format.write(MODELS[name]))
    random = torch.Generator().manual_seed(1)
    ports = XnnpackRuntime().load(xnn_format.write(model)).inputs
    inputs = [port.returned((torch.randn(port.bounds, generator=random) * 3).to(port.dtype)) for port in ports]

    def run(changed: XModel) -> Sequence[torch.Tensor]:
        runtime = XnnpackRuntime()
        return runtime.execute(runtime.load(xnn_format.write(changed)), inputs)

    return told(model, NAMES, run, exact=False)


@pytest.mark.parametrize("name", MODELS)
def test_what_a_changed_delegate_gets(name: str, snapshot: SnapshotAssertion) -> None:
    assert answers(name) == snapshot


def test_a_limit_one_off_is_seen_where_it_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    whole, conv = answers("43-Clamp-fp32"), answers("66-Conv2d-qint8")
    monkeypatch.setattr(xnn_check, "SIZE_LIMIT", xnn_check.SIZE_LIMIT + 1)
    assert answers("43-Clamp-fp32") == whole and answers("66-Conv2d-qint8") != conv
