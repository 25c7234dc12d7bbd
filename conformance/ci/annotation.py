"""Workflow commands of GitHub Actions.

GitHub's rules: `::error file=F,line=N,title=T::MESSAGE`, in which `%`, carriage return and newline of a message are
written %25, %0D and %0A, and in properties also `:` and `,`, %3A and %2C. An older form, `##[error]MESSAGE`, is a
command anywhere in a line: `plain` escapes it.
"""

from __future__ import annotations

from collections.abc import Mapping


def running(environment: Mapping[str, str]) -> bool:
    """Whether a process with this environment is a step of a GitHub Actions job."""
    return environment.get("GITHUB_ACTIONS") == "true"


def message(text: str) -> str:
    """The message of a workflow command."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def value(text: str) -> str:
    """A property of one."""
    return message(text).replace(":", "%3A").replace(",", "%2C")


def annotation(kind: str, title: str, text: str, file: str = "", line: int = 0) -> str:
    """The line that makes an annotation: an error or a warning, at a place if it has one."""
    place = f"file={value(file)}," * bool(file) + f"line={line}," * bool(line)
    return f"::{kind} {place}title={value(title)}::{message(text)}"
