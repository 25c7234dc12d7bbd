"""What names a model: a file of torch.export.save, or module:factory. Needs no torch."""

from __future__ import annotations

from pathlib import Path

from npu_assay.conformance.common.errors import UsageError


def names_file(model: str) -> bool:
    """Whether a model's name is that of a file."""
    return ":" not in model or Path(model).suffix == ".pt2"


def check_file(path: Path) -> None:
    """Raise UsageError where there is no such file."""
    if not path.is_file():
        raise UsageError(f"{path}: found no such file, expected a .pt2 file, or module:factory")
    if path.suffix == ".pte":
        hint = "'assay inspect' shows what is in it, 'assay run' runs it"
        raise UsageError(f"{path}: found a lowered program, expected the model before that, a .pt2 file; {hint}")
