"""The settings of a process that a case must not change."""

from __future__ import annotations

import ctypes
import gc
import locale
import os
import random
import signal
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.random.mtrand import get_bit_generator


@dataclass(frozen=True)
class Setting:
    """One setting: its name in a report, how to read it, and how to write it back.

    shown: whether messages show its value. importing: whether modules may change it when they are first imported.
    """

    name: str
    read: Callable[[], Any]
    write: Callable[[Any], object]
    shown: bool = True
    importing: bool = False


def _deterministic() -> tuple[bool, bool]:
    return torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()


def _set_deterministic(value: tuple[bool, bool]) -> None:
    torch.use_deterministic_algorithms(value[0], warn_only=value[1])


def _flushes() -> bool:
    """Whether this thread flushes subnormal numbers to zero."""
    return sys.float_info.min * _HALF == 0.0


def _rounds_to_nearest() -> bool:
    return 1.0 + _HALF * sys.float_info.epsilon == 1.0 == -(-1.0 - _HALF * sys.float_info.epsilon)


_HALF = float("0.5")  # not a literal in the expressions above, which the compiler would compute


def _set_rounding(nearest: bool) -> None:
    if nearest:
        ctypes.CDLL(None).fesetround(0)


def _numpy_random() -> bytes:
    """The state of the global generator, read from its memory: `get_state` copies it number by number."""
    generator = get_bit_generator()
    return ctypes.string_at(generator.ctypes.state_address, 625 * 4)


def _set_numpy_random(state: bytes) -> None:
    ctypes.memmove(get_bit_generator().ctypes.state_address, state, len(state))


def _torch_random() -> bytes:
    return torch.get_rng_state().numpy().tobytes()


def _set_torch_random(state: bytes) -> None:
    torch.set_rng_state(torch.frombuffer(bytearray(state), dtype=torch.uint8))


def _modes() -> tuple[int, int]:
    return torch._C._len_torch_dispatch_stack(), torch._C._len_torch_function_stack()


def _leave_modes(lengths: tuple[int, int]) -> None:
    while torch._C._len_torch_dispatch_stack() > lengths[0]:
        torch._C._pop_torch_dispatch_stack(None)
    while torch._C._len_torch_function_stack() > lengths[1]:
        torch._C._pop_torch_function_stack()


def _infers() -> bool:
    return torch.is_inference_mode_enabled()


_GUARDS: list[torch.inference_mode] = []  # that are never left: the modes that the backend did not leave are below


def _set_inference(value: bool) -> None:
    _GUARDS.append(torch.inference_mode(value))
    _GUARDS[-1].__enter__()


def _but_for_inference(read: Callable[[], bool]) -> Callable[[], bool]:
    """Read a setting of autograd that inference mode also switches off, as if that mode were off."""
    return lambda: read() or torch.is_inference_mode_enabled()


def _printing() -> tuple[Any, ...]:
    options = torch._tensor_str.PRINT_OPTS
    return options.precision, options.threshold, options.edgeitems, options.linewidth, options.sci_mode


def _set_printing(value: tuple[Any, ...]) -> None:
    names = ("precision", "threshold", "edgeitems", "linewidth", "sci_mode")
    vars(torch._tensor_str.PRINT_OPTS).update(zip(names, value, strict=True))


def _environment() -> dict[bytes, bytes]:
    """The environment as bytes: decoding it takes longer than everything else here."""
    found: dict[bytes, bytes] = vars(os.environ)["_data"]
    return found.copy()


def _set_environment(value: dict[bytes, bytes]) -> None:
    os.environb.clear()
    os.environb.update(value)


_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGALRM, signal.SIGCHLD, signal.SIGSEGV, signal.SIGABRT)


def _handlers() -> tuple[Any, ...]:
    return (*map(signal.getsignal, _SIGNALS), signal.getitimer(signal.ITIMER_REAL)[0] > 0)


def _set_handlers(value: tuple[Any, ...]) -> None:
    if not value[-1]:
        signal.setitimer(signal.ITIMER_REAL, 0)
    for number, handler in zip(_SIGNALS, value, strict=False):
        signal.signal(number, handler)


def _set_filters(value: Sequence[Any]) -> None:
    warnings.resetwarnings()
    warnings.filters[:] = value  # type: ignore[index]  # a list, whatever its stub says


def _streams() -> tuple[Any, ...]:
    """sys.stdout and sys.stderr, and whether each is closed."""
    pair = sys.stdout, sys.stderr
    return (*pair, *(getattr(stream, "closed", False) for stream in pair))


def _set_streams(value: tuple[Any, ...]) -> None:
    sys.stdout, sys.stderr = value[:2]


def _files() -> tuple[tuple[int, int] | None, ...]:
    """The files that are open as 1 and 2, by device and number; None for one that is closed."""
    return tuple(map(_file, (1, 2)))


def _file(descriptor: int) -> tuple[int, int] | None:
    try:
        status = os.fstat(descriptor)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _leave(value: object) -> None:
    """Put nothing back: the process ends anyway, and nothing more is written to these files."""


def _set_path(value: list[str]) -> None:
    sys.path[:] = value


def _locale() -> str:
    return locale.setlocale(locale.LC_ALL)


def _umask() -> int:
    os.umask(value := os.umask(0))
    return value


NUMERIC = (
    Setting("torch's default dtype", torch.get_default_dtype, torch.set_default_dtype),
    Setting("torch's default device", torch.get_default_device, torch.set_default_device),
    Setting("torch's inference mode", _infers, _set_inference),
    Setting("torch's grad mode", _but_for_inference(torch.is_grad_enabled), torch._C._set_grad_enabled),
    Setting(
        "torch's forward-mode gradients",
        _but_for_inference(torch._C._is_fwd_grad_enabled),
        torch._C._set_fwd_grad_enabled,
    ),
    Setting("torch's number of threads", torch.get_num_threads, torch.set_num_threads),
    Setting("torch's deterministic algorithms", _deterministic, _set_deterministic),
    Setting("torch's anomaly detection", torch.is_anomaly_enabled, torch.set_anomaly_enabled),
    Setting(
        "torch's autocast on the CPU",
        lambda: torch.is_autocast_enabled("cpu"),
        lambda value: torch.set_autocast_enabled("cpu", value),
    ),
    Setting("torch's float32 matmul precision", torch.get_float32_matmul_precision, torch.set_float32_matmul_precision),
    Setting(
        "torch's quantized engine",
        lambda: torch.backends.quantized.engine,
        lambda value: setattr(torch.backends.quantized, "engine", value),
    ),
    Setting("torch's use of oneDNN", torch._C._get_mkldnn_enabled, torch._C._set_mkldnn_enabled),
    Setting("the number of active torch modes", _modes, _leave_modes),
    Setting("flushing of subnormal numbers to zero", _flushes, torch.set_flush_denormal),
    Setting("rounding to nearest", _rounds_to_nearest, _set_rounding),
    Setting("numpy's handling of floating-point errors", np.geterr, lambda value: np.seterr(**value)),
)
"""The settings that can change the numbers of a golden."""

SETTINGS = (
    *NUMERIC,
    Setting("torch's print options", _printing, _set_printing),
    Setting("the state of torch's random numbers", _torch_random, _set_torch_random, shown=False),
    Setting("the state of numpy's random numbers", _numpy_random, _set_numpy_random, shown=False),
    Setting("the state of Python's random numbers", random.getstate, random.setstate, shown=False),
    Setting("the warning filters", lambda: list(warnings.filters), _set_filters, shown=False, importing=True),
    Setting("environment variables", _environment, _set_environment, shown=False, importing=True),
    Setting("sys.path", lambda: list(sys.path), _set_path, shown=False, importing=True),
    Setting("sys.stdout or sys.stderr", _streams, _set_streams, shown=False),
    Setting("the open files of stdout and stderr", _files, _leave, shown=False),
    Setting("the trace function (sys.settrace)", sys.gettrace, sys.settrace, shown=False),
    Setting("the profile function (sys.setprofile)", sys.getprofile, sys.setprofile, shown=False),
    Setting("signal handlers", _handlers, _set_handlers, shown=False, importing=True),
    Setting("the locale", _locale, lambda value: locale.setlocale(locale.LC_ALL, value)),
    Setting("the working directory", os.getcwd, os.chdir, shown=False),
    Setting("the umask", _umask, os.umask),
    Setting("the recursion limit", sys.getrecursionlimit, sys.setrecursionlimit, importing=True),
    Setting("the garbage collector", gc.isenabled, lambda value: gc.enable() if value else gc.disable()),
)


@dataclass
class State:
    """The settings as they were when this was made."""

    values: list[Any]
    modules: int

    @classmethod
    def now(cls) -> State:
        """The settings as they are now."""
        return cls([setting.read() for setting in SETTINGS], len(sys.modules))

    def changes(self, numeric: bool = False) -> list[str]:
        """The changed settings (numeric: only of `NUMERIC`), in words; they are put back."""
        settings = NUMERIC if numeric else SETTINGS
        afters = [setting.read() for setting in settings]
        if afters == self.values[: len(settings)]:
            return []
        imported, self.modules = len(sys.modules) > self.modules, len(sys.modules)
        return [
            text
            for index, (setting, after) in enumerate(zip(settings, afters, strict=True))
            if after != self.values[index] and (text := self._put_back(index, setting, after, imported))
        ]

    def _put_back(self, index: int, setting: Setting, after: Any, imported: bool) -> str:
        """The message about one change; "" for one that an import may make, which is kept."""
        before = self.values[index]
        if setting.importing and imported:
            self.values[index] = after
            return ""
        setting.write(before)
        return f"{setting.name} changed" + (f" to {after}, was {before}" if setting.shown else "")
