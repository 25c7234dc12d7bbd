"""An NPU of forty operators whose tags alone are certified: there is no compiler here, and no device."""

from pathlib import Path

from npu_assay.partitioners.exir import Backend
from osprey.partitioner import OspreyPartitioner

backend = Backend("osprey", str(Path(__file__).with_name("osprey@1.0.toml")), OspreyPartitioner)
