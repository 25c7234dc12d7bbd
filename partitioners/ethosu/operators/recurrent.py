"""Recurrent layers and cells."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from npu_assay.partitioners.ethosu.operators.row import Annotation, Row
from npu_assay.partitioners.ethosu.rewriting.recurrent import cell, gru_step, layer, lstm_step, rnn_step

_STEPS = {
    "lstm": lstm_step,
    "gru": gru_step,
    **{f"rnn_{name}": rnn_step(getattr(torch.ops.aten, name).default) for name in ("tanh", "relu")},
}
ROWS: Mapping[str, Row] = {
    f"aten.{name}": Row(annotation=Annotation.FREE, rewrite=rewrite, is_harmless=True)
    for kind, step in _STEPS.items()
    for name, rewrite in ((f"{kind}.input", layer(step)), (f"{kind}_cell.default", cell(step)))
}
