"""The packages whose releases can be compared, and what each is asked."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from npu_assay.conformance.common.errors import UsageError, nearest
from npu_assay.conformance.record.levels import COMPILES, NUMBERS, TAGS


@dataclass(frozen=True)
class Package:
    """How a distribution's releases are asked.

    backends: names for `assay certify`, each with the level that it is asked for. inside: the suite itself runs in the
    environment, as the package is imported there; else only the device program does. beside: what else is installed, at
    the version that is installed here, if it is. alone: the same, without dependencies; it may name the package itself.
    options: of `assay certify`.
    """

    backends: Mapping[str, str]
    inside: bool = False
    beside: tuple[str, ...] = ()
    alone: tuple[str, ...] = ()
    options: tuple[str, ...] = ()


_OF_TOSA = ("tosa-tools", "ethos-u-vela")  # they pin older versions of numpy than they need
PACKAGES: Mapping[str, Package] = {
    "executorch": Package(
        {
            "executorch:xnnpack": NUMBERS,
            "executorch:ethos-u55": NUMBERS,
            "executorch:ethos-u85": NUMBERS,
            "executorch:vulkan": COMPILES,
            "executorch:neutron": TAGS,
            "executorch:coreml": TAGS,
        },
        inside=True,
        beside=("torchao", "coremltools"),
        alone=_OF_TOSA,
    ),
    "tosa-tools": Package({"executorch:arm-tosa": NUMBERS}, True, ("executorch", "torchao"), _OF_TOSA),
    "ethos-u-vela": Package({"ethos-u55": NUMBERS, "ethos-u85": NUMBERS}, True, options=("--with-vela",)),
    "onnxruntime": Package({"onnxruntime:cpu": NUMBERS}, beside=("onnx",)),
    "openvino": Package({"openvino:cpu": NUMBERS}, beside=("numpy",)),
    "ai-edge-litert": Package({"litert:reference": NUMBERS, "litert:xnnpack": NUMBERS}),
}
FORM = re.compile(r"(?P<name>[A-Za-z0-9][\w.-]*?)(?:==(?P<version>[\w.!+-]+)|-(?P<wheel>\d[\w.!+]*)-[\w.-]+\.whl)")


@dataclass(frozen=True)
class Release:
    """A version of a package. source: what pip installs, a requirement or a wheel."""

    name: str
    version: str
    source: str

    @property
    def package(self) -> Package:
        return PACKAGES[self.name]

    def __str__(self) -> str:
        return f"{self.name} {self.version}"


def release(text: str) -> Release:
    """The release of `NAME==VERSION`, or of a wheel. Raises UsageError."""
    found = FORM.fullmatch(text.rpartition("/")[2])
    if found is None:
        raise UsageError(f"{text}: expected NAME==VERSION or a wheel, such as onnxruntime==1.32.0")
    name = found["name"].lower().replace("_", "-")
    if name not in PACKAGES:
        raise UsageError(f"{text}: no package {name!r}{nearest(name, PACKAGES)}")
    return Release(name, found["version"] or found["wheel"], text)
