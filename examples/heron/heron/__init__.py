"""heron: a backend with a partitioner, a compiler and a simulated device."""

from pathlib import Path

from npu_assay.partitioners.exir import Backend

from .backend import HeronBackend
from .partitioner import HeronPartitioner
from .runtime import HeronRuntime

TABLE = str(Path(__file__).with_name("heron@1.0.toml"))

backend = Backend("heron", TABLE, HeronPartitioner, HeronBackend, HeronRuntime())
