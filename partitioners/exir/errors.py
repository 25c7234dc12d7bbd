"""The errors of the export API; each says what is wrong, what was found, what was expected, and where."""

from __future__ import annotations


class ExirError(ValueError):
    """A request to the export API that cannot be carried out.

    `where` names the node, method or argument at fault, `found` and `expected` are short phrases.
    """

    def __init__(self, what: str, found: str, expected: str, where: str) -> None:
        super().__init__(f"{where}: {what}: found {found}, expected {expected}")
        self.what = what
        self.found = found
        self.expected = expected
        self.where = where


class EdgeError(ExirError):
    """A program, or a graph meant to become one, that is not valid edge dialect."""


class ContractError(ExirError):
    """A partitioner that broke the partitioning contract."""


class BackendError(ExirError):
    """A backend that is unknown, or whose compiler or runtime answered with something unusable."""


class InputError(ExirError):
    """Inputs that do not fit the program they were given to."""
