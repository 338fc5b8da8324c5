"""The npm package of the runtime as a registry would hand it out, and TypeScript's view of it."""

from __future__ import annotations

import json
import re
import subprocess
import tarfile
from pathlib import Path

from hatch_build import command

WEB = Path(__file__).resolve().parents[1] / "web"
STRICT = ["--noEmit", "--strict", "--exactOptionalPropertyTypes", "--noUncheckedIndexedAccess"]
FAULT = re.compile(r"^(?P<file>[^(\n]+)\((?P<line>\d+),\d+\): error ", re.MULTILINE)

RESOLUTIONS = {"bundler": "esnext", "nodenext": "nodenext"}
"""`moduleResolution` of a consumer, with the `module` that goes with it."""


def node(*arguments: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a script of Node's."""
    return subprocess.run(
        [*command("node"), *map(str, arguments)], cwd=cwd, capture_output=True, text=True
    )


def install(folder: Path) -> Path:
    """Make, pack and unpack the package into `folder/node_modules`; gives where it is."""
    made = folder / "made"
    done = node(WEB / "package.mjs", made, cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    packed = subprocess.run(
        [*command("npm"), "pack", "--json", "--ignore-scripts", f"--pack-destination={folder}"],
        cwd=made,
        capture_output=True,
        text=True,
        check=True,
    )
    (entry,) = json.loads(packed.stdout)
    with tarfile.open(folder / entry["filename"]) as archive:
        archive.extractall(folder, filter="data")
    target = folder / "node_modules" / str(entry["name"])
    target.parent.mkdir()
    (folder / "package").rename(target)
    return target


def refused(folder: Path, resolution: str) -> set[tuple[str, int]]:
    """File and line of every fault that tsc finds in the consumer in `folder`."""
    (folder / "package.json").write_text('{"type": "module"}')
    options = ["--module", RESOLUTIONS[resolution], "--moduleResolution", resolution]
    options += [*STRICT, "--target", "es2022", "--lib", "es2022,dom"]
    sources = sorted(path.name for path in folder.glob("*.ts"))
    tsc = WEB / "node_modules" / "typescript" / "bin" / "tsc"
    done = node(tsc, *options, *sources, cwd=folder)
    found = {(m["file"], int(m["line"])) for m in FAULT.finditer(done.stdout)}
    assert (done.returncode == 0) == (not found), done.stdout + done.stderr
    return found
