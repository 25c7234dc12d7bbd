"""Finding the backend under test: an entry point's name, an adapter and a name, or `module:attribute`."""

from __future__ import annotations

import importlib
import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import EntryPoint, PackageNotFoundError, entry_points, version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from npu_assay.conformance.adapters import adapted
from npu_assay.conformance.backend.environment import installed_version
from npu_assay.conformance.backend.importing import import_regular
from npu_assay.conformance.common.describing import message, own_place, type_name
from npu_assay.conformance.common.errors import UsageError, nearest
from npu_assay.conformance.record.levels import COMPILES, LEVELS, NUMBERS, TAGS, reaches

if TYPE_CHECKING:
    from npu_assay.partitioners.exir.backend import Backend

GROUP = "npu_assay.backends"


class BackendSpecError(UsageError):
    """A backend that cannot be loaded; the message says what was asked for and what is wrong."""


def registered() -> dict[str, EntryPoint]:
    """Installed backends by name, sorted. Loads none of them."""
    return {point.name: point for point in sorted(entry_points(group=GROUP), key=lambda point: point.name)}


def load_backend(spec: str, elsewhere: bool = False) -> Backend:
    """Load a backend by entry-point name, `adapter:name` or `module:attribute`.

    An installed module comes before one in the current directory that has its name. elsewhere: its programs run in
    another interpreter, or behind a command. Raises BackendSpecError, or UsageError for an adapter that lacks what it
    adapts.
    """
    module, _, attribute = target(spec).partition(":")
    where = f"backend {spec!r}"
    found = _attribute(where, _module(where, module), attribute)
    from npu_assay.partitioners.exir.backend import Backend  # loads torch

    if not isinstance(found, Backend):
        raise BackendSpecError(f"backend {spec!r}: {attribute} is of type {type(found).__name__}, expected a Backend")
    _check_fields(where, found)
    if adapted(spec) and not elsewhere:
        check_installed(spec, found)
    return found


def check_installed(spec: str, backend: Backend) -> None:
    """Raise UsageError where a backend's program runs in this interpreter, and a module that it needs is missing."""
    for module, distribution in getattr(backend.runtime, "needs", ()):  # of an engine's Machine
        if _is_there(module):
            continue
        if distribution:
            raise UsageError(f"{spec} needs the package {distribution}: pip install {distribution}")
        raise BackendSpecError(
            f"backend {spec!r}: found no module {module!r}, expected --python with the interpreter of an "
            "environment that has it (docs/interchange.md)"
        )


def _is_there(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # the package that it is in
        return False


def _check_fields(where: str, backend: Backend) -> None:
    """The parts of a backend are what they must be; a program that is not type-checked may put anything there."""
    for name in ("name", "table"):
        text = getattr(backend, name)
        if not isinstance(text, str) or not text.strip() or not text.isprintable():
            raise BackendSpecError(f"{where}: its {name} is {text!r}, expected some text")
    processes = backend.processes
    if type(processes) is not int or processes < 0:
        raise BackendSpecError(f"{where}: its processes is {processes!r}, expected a whole number from 0")
    if not isinstance(backend.details, type):
        raise BackendSpecError(f"{where}: its details is {backend.details!r}, expected a class with preprocess")


def highest_level(backend: Backend) -> str:
    """How far a backend can be judged: what it has of compiler and runtime decides."""
    from npu_assay.partitioners.exir.backend import NoCompiler, NoRuntime  # loads torch

    if backend.details is NoCompiler:
        return TAGS
    return COMPILES if isinstance(backend.runtime, NoRuntime) else NUMBERS


def check_level(spec: str, highest: str, level: str) -> None:
    """Raise BackendSpecError when a level is asked for that is higher than a backend's highest."""
    if not reaches(highest, level):
        raise BackendSpecError(
            f"backend {spec!r} has no {_lacking(highest)}: found --level {level}, expected --level {_until(highest)}"
        )


def _lacking(highest: str) -> str:
    """What a backend lacks that cannot be judged beyond this level."""
    return "compiler" if highest == TAGS else "runtime"


def _until(level: str) -> str:
    """The levels up to one, in words."""
    return " or ".join(one for one in LEVELS if reaches(level, one))


def load_whole(spec: str) -> Backend:
    """`load_backend` where compiler and runtime are needed. Raises BackendSpecError for a backend without them."""
    backend = load_backend(spec)
    if (highest := highest_level(backend)) != NUMBERS:
        raise BackendSpecError(
            f"backend {spec!r} has no {_lacking(highest)}, which this needs; 'assay certify --level {highest}' does not"
        )
    return backend


def load_object(what: str, spec: str) -> object:
    """What `module:attribute` names. Raises BackendSpecError, which begins with `what`, when there is nothing."""
    module, _, attribute = spec.partition(":")
    where = f"{what} {spec!r}"
    return _attribute(where, _module(where, module), attribute)


def by_delegate(specs: Sequence[str] = ()) -> dict[str, Backend]:
    """Backends by the id of their delegates: those named, then the installed ones that can be loaded.

    Raises BackendSpecError for a named one that cannot be loaded.
    """
    found: dict[str, Backend] = {}
    for spec in specs:
        backend = load_whole(spec)
        found.setdefault(backend.details.__name__, backend)
    for name in registered():
        try:
            backend = load_whole(name)
        except BackendSpecError:
            continue  # somebody else's; only a delegate of its own needs it
        found.setdefault(backend.details.__name__, backend)
    return found


def installed_tools(backend: Backend, names: Sequence[str]) -> dict[str, str]:
    """The versions of what a backend stands on and its checks of these names need, by distribution; what stands in.

    Raises BackendSpecError for a check that the backend does not have, or that is not installed.
    """
    versions = {name: installed_version(name) for name in backend.distributions} | dict(backend.stands_in)
    for name in names:
        if name not in backend.blob_checks:
            raise BackendSpecError(f"backend {backend.name!r}: --with-{name}: it has no such check")
        distribution = backend.blob_checks[name].distribution
        try:
            versions[distribution] = version(distribution)
        except PackageNotFoundError:
            raise BackendSpecError(f"--with-{name}: {distribution} is not installed (pip install it)") from None
    return versions


def target(spec: str) -> str:
    """`module:attribute` of a backend's name or spec. Raises BackendSpecError for an unknown name."""
    if ":" in spec:
        return adapted(spec) or spec
    known = registered()
    if spec not in known:
        hint = "install its package, or give module:attribute, such as my_npu:backend"
        near = nearest(spec, [name for name in known if not _is_other_number(spec, name)], 0) or nearest("", known)
        raise BackendSpecError(f"no backend {spec!r}{near} ({hint})")
    return known[spec].value


def _is_other_number(spec: str, name: str) -> bool:
    """Whether they differ in their digits alone: another device, not a mistyped one."""
    spelled, other = (re.sub(r"\d+", "0", text) for text in (spec, name))
    return spelled == other


def needed_path(spec: str) -> str:
    """The PYTHONPATH that a loaded backend was found by, or "" for one that is found without."""
    if ":" not in spec or adapted(spec):
        return ""
    package = sys.modules[spec.partition(":")[0].partition(".")[0]]
    places = getattr(package, "__path__", None) or [str(package.__file__)]
    path = os.environ.get("PYTHONPATH", "")
    entries = {Path(entry).resolve() for entry in path.split(os.pathsep) if entry}
    return path if entries & {Path(place).resolve().parent for place in places} else ""


def _module(where: str, name: str) -> object:
    """Import a module: an installed one, else one on the path or beside the current directory."""
    if not name:
        raise BackendSpecError(f"{where}: expected module:attribute")
    with _loading(where, name):
        import_regular(name.partition(".")[0])
        return importlib.import_module(name)


def _attribute(where: str, module: object, name: str) -> object:
    if not name:
        raise BackendSpecError(f"{where}: expected module:attribute, found no attribute")
    with _loading(where, getattr(module, "__name__", "")):  # a module's own __getattr__ may import, and raise anything
        try:
            found: object = getattr(module, name)
        except AttributeError:
            public = [key for key in dir(module) if not key.startswith("_")]
            if name in public:  # it is there, and something that making it needs is not
                raise
            raise BackendSpecError(
                f"{where}: its module has no {name!r}{nearest(name, public)}{_folder_hint(module)}"
            ) from None
    return found


def _folder_hint(module: object) -> str:
    """What to do about a folder without `__init__.py`, such as that of a project that is not installed; or ""."""
    if getattr(module, "__file__", None) is not None:
        return ""
    folder = next(iter(getattr(module, "__path__", ())), "")
    return (
        f"; it is the folder {folder} without __init__.py, expected a package "
        f"(a project is installed with 'pip install -e', or put on PYTHONPATH)"
    )


@contextmanager
def _loading(where: str, name: str) -> Iterator[None]:
    """Whatever a module raises as one error that says what and where."""
    try:
        yield
    except UsageError:
        raise  # an adapter that says itself what it needs
    except ImportError as error:
        raise BackendSpecError(f"{where}: cannot import {name}: {error}") from error
    except SyntaxError as error:
        place = f"{Path(str(error.filename)).name}, line {error.lineno}"
        raise BackendSpecError(f"{where}: cannot import {name}: {error.msg} ({place})") from error
    except SystemExit as error:
        raise BackendSpecError(f"{where}: importing {name} ends the process (exit code {error.code})") from error
    except Exception as error:  # a module may raise anything; the message says what and where
        found = f"{type_name(error)}: {' '.join(message(error).split())}{own_place(error)}"
        raise BackendSpecError(f"{where}: cannot import {name}: {found}") from error
