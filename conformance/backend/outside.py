"""What installed packages bring is code of the oracle: nothing that is judged may bring any."""

from __future__ import annotations

from collections.abc import Iterable

from npu_assay.conformance.common.errors import UsageError
from npu_assay.reference.outside import CONSTRAINTS, GROUP, constraint_packages, packages


def check_apart(files: Iterable[str]) -> None:
    """Raise UsageError when a package that brings operators or constraints is among a backend's files, by paths."""
    own = {file.partition("/")[0].removesuffix(".py") for file in files}
    brought = [(name, "operators", GROUP) for name in packages()]
    brought += [(name, "constraints", CONSTRAINTS) for name in constraint_packages()]
    for package, what, group in brought:
        if package in own:
            raise UsageError(
                f"package {package!r} brings {what} ({group}) and is part of the backend that they would judge: "
                f"expected them in a distribution of their own, which the backend does not import"
            )
