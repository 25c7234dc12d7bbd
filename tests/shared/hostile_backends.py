"""Backends that misbehave on neg and are sound on abs: one for each way to bring a process down or to spoil it.

Load one as `hostile_backends:segfaults`.
"""

from __future__ import annotations

import ctypes
import itertools
import logging
import os
import random
import resource
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import fake_backend
import numpy as np
import torch
from fake_backend import FakePartitioner, FakeRuntime
from torch import Tensor, fx
from torch.export import ExportedProgram

from npu_assay.conformance.run import answering
from npu_assay.partitioners.exir import Backend, BackendDetails, CompileSpec, PreprocessResult

NEG = "aten.neg.default"
Deed = Callable[[], object]
HUGE = 2**36  # bytes


def running(deed: Deed) -> Backend:
    """A backend whose device does something before it negates."""

    class Runtime(FakeRuntime):
        def load(self, processed_bytes: bytes, compile_specs: Sequence[CompileSpec]) -> Any:
            handle = super().load(processed_bytes, compile_specs)
            return (lambda codes: (deed(), handle(codes))[1]) if NEG.encode() in processed_bytes else handle

    return replace(fake_backend.backend, runtime=Runtime())


def running_on(deed: Callable[[Tensor], object]) -> Backend:
    """A backend whose device does something to its input when it has negated it."""

    class Runtime(FakeRuntime):
        def load(self, processed_bytes: bytes, compile_specs: Sequence[CompileSpec]) -> Any:
            handle = super().load(processed_bytes, compile_specs)
            return (lambda codes: (handle(codes), deed(codes))[0]) if NEG.encode() in processed_bytes else handle

    return replace(fake_backend.backend, runtime=Runtime())


RUNS = len(answering.RUNS) + len(answering.FRESH)  # of neg in each case


def tagging(deed: Deed) -> Backend:
    """A backend whose partitioner does something when it sees neg."""

    class Partitioner(FakePartitioner):
        def takes(self, node: fx.Node) -> bool:
            if fake_backend._name(node) == NEG:
                deed()
            return super().takes(node)

    return replace(fake_backend.backend, partitioner=Partitioner)


def returning(change: Callable[[Tensor], Any]) -> Backend:
    """A backend whose device returns something else."""

    class Runtime(FakeRuntime):
        def load(self, processed_bytes: bytes, compile_specs: Sequence[CompileSpec]) -> Any:
            handle = super().load(processed_bytes, compile_specs)
            return (lambda codes: change(handle(codes))) if NEG.encode() in processed_bytes else handle

    return replace(fake_backend.backend, runtime=Runtime())


# ------------------------------------------------------------------------------------ what brings a process down


def _recurse() -> None:
    _recurse()


def _sleep_in_c() -> None:
    ctypes.PyDLL(None).sleep(1000)  # with the interpreter locked


def _spin() -> None:
    while True:
        pass


def _ignore_and_spin() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    _spin()


def _grow_slowly() -> None:
    kept = []
    while True:
        kept.append(bytearray(2**24))


def _lift_limit() -> None:
    """A backend that raises its own limit is measured from outside."""
    resource.setrlimit(resource.RLIMIT_DATA, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    kept = torch.ones(2**28, dtype=torch.uint8)
    kept = torch.cat([kept] * 8)
    time.sleep(1000)


def _kill_parent() -> None:
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(1000)


def _kill_parent_and_return() -> None:
    os.kill(os.getppid(), signal.SIGKILL)


def _stop_parent() -> None:
    os.kill(os.getppid(), signal.SIGSTOP)


def _stop_parent_and_hang() -> None:
    _stop_parent()
    time.sleep(1000)


segfaults = running(lambda: ctypes.string_at(0))
aborts = running(lambda: ctypes.CDLL(None).abort())
complains = running(lambda: (os.write(2, b"double free at 0x7f12\nbye"), os.abort()))
terminates = tagging(lambda: os._exit(0))
exits = tagging(lambda: sys.exit("enough"))
interrupts = tagging(lambda: signal.raise_signal(signal.SIGTERM))
presses = tagging(lambda: (_ for _ in ()).throw(KeyboardInterrupt))
recurses = tagging(_recurse)
hangs = running(_spin)
hangs_in_c = tagging(_sleep_in_c)
deaf = running(_ignore_and_spin)
allocates = running(lambda: torch.empty(HUGE, dtype=torch.uint8))
grows = running(_grow_slowly)
evades = running(_lift_limit)
fells = running(_kill_parent)
fells_quietly = running(_kill_parent_and_return)
stops = running(_stop_parent)
stops_and_hangs = running(_stop_parent_and_hang)
babbles = running(lambda: [os.write(fd, b"hello\n") for fd in range(3, 64) if _is_socket(fd)])


def _is_socket(descriptor: int) -> bool:
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}").startswith("socket:")
    except OSError:
        return False


# ------------------------------------------------------------------------------------ what spoils one


def _leave_child() -> None:
    subprocess.Popen(["sleep", "1000"])


def _leave_grandchild() -> None:
    """A daemon: its parent ends, and it has a session of its own."""
    if not (child := os.fork()):
        if not os.fork():
            os.setsid()
            time.sleep(1000)
        os._exit(0)
    os.waitpid(child, 0)


def _leave_daemons() -> None:
    """Each has a session of its own, closes what it inherited, and is not to be stopped by another's end."""
    for _ in range(3):
        if not os.fork():
            os.setsid()
            if not os.fork():
                os.closerange(0, 64)
                os.fork()
                while True:
                    time.sleep(1000)
            os._exit(0)


def _leave_daemons_and_fell() -> None:
    _leave_daemons()
    _kill_parent()


def _leave_daemons_and_wait() -> None:
    _leave_daemons()
    time.sleep(1000)


def _leave_daemons_and_die() -> None:
    _leave_daemons()
    os.abort()


def _fork_and_wait() -> None:
    """The copy returns, unknown to Python."""
    child = ctypes.CDLL(None).fork()
    if child:
        os.waitpid(child, 0)


def _leave_thread() -> None:
    threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()


def _enter(mode: torch.inference_mode) -> None:
    """For good: a mode that is forgotten is left."""
    _MODES.append(mode)
    mode.__enter__()


_MODES: list[torch.inference_mode] = []


def _log() -> None:
    """Not output: whoever runs the backend decides where that goes."""
    logging.getLogger("npu").warning("slow")
    warnings.warn("old", stacklevel=1)


leaves_child = running(_leave_child)
leaves_grandchild = tagging(_leave_grandchild)
leaves_daemons = tagging(_leave_daemons)
leaves_daemons_and_fells = running(_leave_daemons_and_fell)
leaves_daemons_and_waits = running(_leave_daemons_and_wait)
leaves_daemons_and_dies = running(_leave_daemons_and_die)
leaves_thread = running(_leave_thread)
forks = running(os.fork)
forks_in_c = running(ctypes.CDLL(None).fork)
forks_and_waits = tagging(_fork_and_wait)
forks_and_exits = running(lambda: os.fork() or sys.exit())
keeps_child = replace(running(_leave_child), processes=RUNS)
default_dtype = tagging(lambda: torch.set_default_dtype(torch.float64))
grad_mode = tagging(lambda: torch.set_grad_enabled(not torch.is_grad_enabled()))
inference = running(lambda: _enter(torch.inference_mode()))
forward_mode = running(lambda: torch._C._set_fwd_grad_enabled(False))
traces = running(lambda: sys.settrace(lambda *_: None))
profiles = running(lambda: sys.setprofile(lambda *_: None))
redirects = running(lambda: os.dup2(os.open(os.devnull, os.O_WRONLY), 1))
closes_file = tagging(lambda: os.closerange(2, 3))
closes_stream = tagging(lambda: sys.stdout.close())
deterministic = tagging(lambda: torch.use_deterministic_algorithms(True))
thread_count = running(lambda: torch.set_num_threads(3))
torch_random = running(lambda: torch.rand(1))
torch_seed = running(lambda: torch.manual_seed(5))
numpy_random = running(lambda: np.random.rand())
python_random = running(lambda: random.random())
flushing = running(lambda: torch.set_flush_denormal(True))
filters = running(lambda: warnings.simplefilter("error"))
environment = running(lambda: os.environ.update(HOSTILE="1"))
folder = running(lambda: os.chdir("/"))
printing = running(lambda: setattr(torch._tensor_str.PRINT_OPTS, "precision", 1))
prints = running(lambda: print(f"hello from {object()}"))
prints_in_c = running(lambda: ctypes.CDLL(None).puts(b"hello from C"))
logs = running(lambda: os.write(2, b"W0000 a warning\n"))

# ------------------------------------------------------------------------------------ wrong answers


def _rejecting(**changes: object) -> Backend:
    """A backend that rejects neg, with something wrong in the reason."""

    class Partitioner(FakePartitioner):
        def takes(self, node: fx.Node) -> bool:
            if fake_backend._name(node) != NEG:
                return super().takes(node)
            taken = self.reject(node, "mood", "a bad one", "the mood must be good")
            for name, value in changes.items():
                object.__setattr__(self.rejections[-1], name, value)
            return taken

    return replace(fake_backend.backend, partitioner=Partitioner)


def _raise(error: Exception) -> None:
    raise error


no_sentence = _rejecting(sentence=None)
no_code = _rejecting(code=7)
half_character = _rejecting(found="a\udc80b")


class _HalfNamed(type):
    __name__ = property(lambda cls: "a\udc80b")


class _Unnamed(type):
    @property
    def __name__(cls) -> str:  # type: ignore[override]
        raise RuntimeError("no name")


class HalfNamed(Exception, metaclass=_HalfNamed):
    """Gives out a name that no text can hold."""


class Unnamed(Exception, metaclass=_Unnamed):
    """Gives out no name."""


class Speechless(Exception):
    """Says nothing of itself."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


half_named = tagging(lambda: _raise(HalfNamed("odd")))
unnamed = tagging(lambda: _raise(Unnamed("odd")))
speechless = tagging(lambda: _raise(Speechless("odd")))
half_said = tagging(lambda: _raise(ValueError("a\udc80b")))
wrong_shape = returning(lambda y: y.flatten()[:1])
wrong_dtype = returning(lambda y: y.to(torch.int16))
no_tensor = returning(lambda y: None)


_turns = itertools.count()
moody = returning(lambda y: y - 1 if next(_turns) == len(answering.RUNS) - 1 else y)


scribbles = running_on(lambda codes: codes.fill_(5))
_BUFFERS: dict[torch.Size, torch.Tensor] = {}
reuses = returning(lambda y: _BUFFERS.setdefault(y.shape, torch.empty_like(y)).copy_(y))
_deaths = itertools.count()
dies_second = running(lambda: ctypes.string_at(0) if next(_deaths) == len(answering.RUNS) else None)
logging_backend = running(_log)


_COMPILED: dict[bytes, bytes] = {}


class Remembers(fake_backend.FakeBackend):
    """Keeps what it compiles of neg where only this process has it; the blob is no more than a name for it."""

    @staticmethod
    def preprocess(edge_program: ExportedProgram, compile_specs: list[CompileSpec]) -> PreprocessResult:
        result = fake_backend.FakeBackend.preprocess(edge_program, compile_specs)
        if NEG.encode() not in result.processed_bytes:
            return result
        name = b"0" * len(_COMPILED)
        _COMPILED[name] = result.processed_bytes
        return PreprocessResult(b"neg")


Remembers.__name__ = "FakeBackend"


def remembering(read: Callable[[FakeRuntime, bytes], Any]) -> Backend:
    """A backend with that compiler, whose runtime reads the blobs of neg so."""

    class Runtime(FakeRuntime):
        def load(self, processed_bytes: bytes, compile_specs: Sequence[CompileSpec]) -> Any:
            known = processed_bytes != b"neg"
            return super().load(processed_bytes, compile_specs) if known else read(self, processed_bytes)

    return replace(fake_backend.backend, details=Remembers, runtime=Runtime())


def _guess(runtime: FakeRuntime, blob: bytes) -> Any:
    found = FakeRuntime.load(runtime, next(iter(_COMPILED.values()), b'{"op": "", "x": [1.0, 0], "y": [1.0, 0]}'), ())
    return found if _COMPILED else lambda codes: found(codes) + 1


def _or_die(runtime: FakeRuntime, blob: bytes) -> Any:
    if not _COMPILED:
        os.kill(os.getpid(), signal.SIGKILL)
    return FakeRuntime.load(runtime, _COMPILED[b""], ())


remembers = remembering(lambda runtime, blob: FakeRuntime.load(runtime, _COMPILED[b""], ()))
guesses = remembering(_guess)
dies_elsewhere = remembering(_or_die)


def scrawling(details: type[BackendDetails]) -> type[BackendDetails]:
    """A compiler that writes on the constants that it is given when it is done."""

    class Scrawls(details):  # type: ignore[misc, valid-type]  # a class that is known at run time
        @staticmethod
        def preprocess(edge_program: ExportedProgram, compile_specs: list[CompileSpec]) -> PreprocessResult:
            result = details.preprocess(edge_program, compile_specs)
            for value in edge_program.state_dict.values():
                value.zero_()
            return result

    Scrawls.__name__ = details.__name__
    return Scrawls
