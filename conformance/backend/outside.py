"""Operators from installed packages are code of the oracle: nothing that is judged may bring any."""

from __future__ import annotations

from collections.abc import Iterable

from npu_assay.conformance.common.errors import UsageError
from npu_assay.reference.outside import GROUP, packages


def check_apart(files: Iterable[str]) -> None:
    """Raise UsageError when a package that brings operators is among a backend's files, by their paths."""
    own = {file.partition("/")[0].removesuffix(".py") for file in files}
    for package in packages():
        if package in own:
            raise UsageError(
                f"package {package!r} brings operators ({GROUP}) and is part of the backend that they would judge: "
                f"expected them in a distribution of their own, which the backend does not import"
            )
