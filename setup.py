"""The folders of the repository as one package: `conformance` is installed as `npu_assay.conformance`, and so on.

All else stands in pyproject.toml. The links in `npu_assay` serve tools that read the checkout:
type checker, import linter.
"""

from setuptools import find_packages, setup

FOLDERS = ("conformance", "reference", "partitioners")

setup(
    packages=[
        "npu_assay",
        *(f"npu_assay.{name}" for folder in FOLDERS for name in find_packages(include=[folder, f"{folder}.*"])),
    ],
    package_dir={"npu_assay": "npu_assay", **{f"npu_assay.{folder}": folder for folder in FOLDERS}},
)
