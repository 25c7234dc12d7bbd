"""The folders of the repository as one package: `conformance` is installed as `npu_assay.conformance`, and so on.

All else stands in pyproject.toml. The links in `npu_assay` serve tools that read the checkout:
type checker, import linter.
"""

import re
import shutil
from pathlib import Path

from setuptools import find_namespace_packages, setup
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

ROOT = Path(__file__).parent
FOLDERS = ("conformance", "reference", "partitioners", "faults")
LINK = re.compile(r"!?\[([^\]]+)\]\((?!https?://)([^)]+)\)")
NOTE = "Files that are named here, such as those in `docs`, are in the source distribution.\n"


class FreshBuild(build_py):
    """Modules that an earlier build left in `build` are not in the wheel."""

    def run(self) -> None:
        if not self.editable_mode:
            shutil.rmtree(self.build_lib, ignore_errors=True)
        super().run()


class LinkedSdist(sdist):
    """The links in `npu_assay` are in the source distribution, too, which works as a checkout does."""

    def make_release_tree(self, base_dir: str, files: list[str]) -> None:
        super().make_release_tree(base_dir, files)
        for folder in FOLDERS:
            Path(base_dir, "npu_assay", folder).symlink_to(Path("..", folder))


def description() -> str:
    """README.md as the package index shows it, which has no other files: a link to one becomes its name."""

    def named(link: re.Match[str]) -> str:
        text, target = link.groups()
        target = target if target.startswith("#") else target.partition("#")[0]
        return text if target.startswith("#") else f"`{target}`" if text == target else f"{text} (`{target}`)"

    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    return f"{LINK.sub(named, readme)}\n{NOTE}"


setup(
    packages=[
        "npu_assay",
        *(
            f"npu_assay.{name}"
            for folder in FOLDERS
            for name in find_namespace_packages(include=[folder, f"{folder}.*"], exclude=["*__pycache__*"])
        ),
    ],
    package_dir={"npu_assay": "npu_assay", **{f"npu_assay.{folder}": folder for folder in FOLDERS}},
    cmdclass={"build_py": FreshBuild, "sdist": LinkedSdist},
    long_description=description(),
    long_description_content_type="text/markdown",
)
