"""Import a PyTorch model from a function that makes it, in a process of its own.

The function returns `(module, inputs)`: an `nn.Module` and example inputs, a dict by name or a
tuple in the order of `forward`; or a `builder.sources.TorchExport`, which can name outputs and free
axes too. If it has parameters named like the recipe's files, it gets their paths:

    def factory(weights: Path):
        model = Net()
        model.load_state_dict(torch.load(weights, weights_only=True))
        return model, {"image": torch.zeros(1, 3, 224, 224)}

The process contains what a framework does: memory, threads, warnings, crashes.
"""

from __future__ import annotations

import importlib.util
import json
import logging
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from builder import errors
from builder.errors import MissingExtraError, SourceError
from builder.model import Event, Model, Provenance
from builder.sources import onnx_file, onnx_read

FORM = re.compile(r"(?:[A-Za-z_][\w.]*|[^:]+\.py|[A-Za-z]:[^:]+\.py):[A-Za-z_]\w*")

STEP = "@step "
"""What marks a progress line of the exporting process."""

CODE = Path(__file__).resolve().parents[2]
"""The folder that holds the package `builder`, for the other process to find it."""

log = logging.getLogger(__name__)


def matches(source: str) -> bool:
    """Whether a source has the form `package.module:factory` or `file.py:factory`."""
    return FORM.fullmatch(source) is not None


def load(
    source: str,
    *,
    base: Path,
    files: Mapping[str, Path],
    work: Path,
    shapes: onnx_file.Shapes,
    progress: Callable[[str], None],
) -> Model:
    """Export what a factory makes, compared with PyTorch on seeded inputs of several shapes.

    Args:
        source: `package.module:factory`, found from the current folder and `base` too, or
            `file.py:factory`.
        base: The folder that a relative file starts from.
        files: Files of the recipe by name.
        work: An empty folder.
        shapes: See `onnx_file.load`.
        progress: Told each step.

    Raises:
        MissingExtraError: PyTorch isn't installed.
        ImportMismatchError: An exporter's graph differs from PyTorch, and none does better.
        SourceError: The factory fails, no exporter manages, or the process dies.
    """
    name = Path(source).name  # no folder of this machine
    if importlib.util.find_spec("torch") is None:
        raise MissingExtraError(
            name, "PyTorch isn't installed", "Install it: pip install 'onnxsite[torch]'."
        )
    report = _export(name, source, base, files, work, progress)
    if "error" in report:
        kind, what, why, remedy = report["error"]
        raise getattr(errors, kind)(f"{name}, {what}", why, remedy)
    proto = onnx_read.parse(name, (work / "model.onnx").read_bytes())
    model = onnx_file.from_proto(proto, Provenance(name), shapes=shapes)
    model.events[:0] = [Event(level, "export", message) for level, message in report["events"]]
    return model


def _export(
    name: str,
    source: str,
    base: Path,
    files: Mapping[str, Path],
    work: Path,
    progress: Callable[[str], None],
) -> dict[str, Any]:
    """Run the exporting process and read its report."""
    request, answer, chatter = (work / n for n in ("request.json", "report.json", "export.log"))
    paths = {key: str(path.resolve()) for key, path in files.items()}
    asked = {"source": source, "base": str(base.resolve()), "files": paths}
    request.write_text(json.dumps(asked), encoding="utf-8")
    path = os.pathsep.join(filter(None, [str(CODE), os.environ.get("PYTHONPATH")]))
    with chatter.open("w+", encoding="utf-8", errors="replace") as stream:
        with subprocess.Popen(
            [sys.executable, "-m", "builder.sources.torch_export", str(request)],
            env={**os.environ, "PYTHONPATH": path},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stream,
            encoding="utf-8",
            errors="replace",
        ) as process:
            try:
                for line in process.stdout or ():
                    if line.startswith(STEP):
                        progress(line.removeprefix(STEP).strip())
                    else:
                        log.info("%s", line.rstrip())
            except BaseException:
                process.kill()
                raise
        stream.seek(0)
        said = stream.read().strip()
    log.info("%s", said)
    if process.returncode or not answer.is_file():
        raise SourceError(
            name,
            f"the process that exports it died ({_end(process.returncode, said)})",
            "Build with -v to see what it wrote.",
        )
    return json.loads(answer.read_text(encoding="utf-8"))  # type: ignore[no-any-return]


def _end(code: int, said: str) -> str:
    if code < 0:
        name = signal.Signals(-code).name
        return f"{name}: out of memory, perhaps" if name == "SIGKILL" else name
    return said.splitlines()[-1] if said else f"exit code {code}"
