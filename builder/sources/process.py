"""Do a part of an import in a process of its own, which contains what a framework does.

Memory comes back, threads and warnings stay there, and a crash is an error message. The process is
`python -m MODULE REQUEST.json`; it writes `report.json` beside the request, which says what
happened or holds an error. Lines on its standard output that begin with `STEP` tell how far it is.
"""

from __future__ import annotations

import json
import logging
import os
import re
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from builder import errors
from builder.errors import OnnxsiteError, SourceError

STEP = "@step "
"""What marks a progress line."""

COLOUR = re.compile(r"\x1b\[[\d;]*m")
"""What frameworks write into messages for terminals."""

CODE = Path(__file__).resolve().parents[2]
"""The folder that holds the package `builder`, for the other process to find it."""

log = logging.getLogger(__name__)


def run(
    module: str,
    name: str,
    request: Mapping[str, Any],
    work: Path,
    progress: Callable[[str], None],
) -> dict[str, Any]:
    """Run a module on a request, and give its report.

    Args:
        module: Its `main` is `answer` with what it does.
        name: Of the source, for messages.
        request: What JSON can hold.
        work: An empty folder; whatever the process writes lies there.
        progress: Told each step.

    Raises:
        OnnxsiteError: The one that the process ended with.
        SourceError: It died.
    """
    asked, answered, chatter = (work / n for n in ("request.json", "report.json", "import.log"))
    asked.write_text(json.dumps(request), encoding="utf-8")
    path = os.pathsep.join(filter(None, [str(CODE), os.environ.get("PYTHONPATH")]))
    with chatter.open("w+", encoding="utf-8", errors="replace") as stream:
        with subprocess.Popen(
            [sys.executable, "-m", module, str(asked)],
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
    if process.returncode or not answered.is_file():
        raise SourceError(
            name,
            f"the process that imports it died ({_end(process.returncode, said)})",
            "Build with -v to see what it wrote.",
        )
    report: dict[str, Any] = json.loads(answered.read_text(encoding="utf-8"))
    if "error" in report:
        kind, what, why, remedy = report["error"]
        raise getattr(errors, kind)(f"{name}, {what}", why, remedy)
    return report


def _end(code: int, said: str) -> str:
    if code < 0:
        name = signal.Signals(-code).name
        return f"{name}: out of memory, perhaps" if name == "SIGKILL" else name
    return said.splitlines()[-1] if said else f"exit code {code}"


def answer(path: Path, work: Callable[[Mapping[str, Any], Path], dict[str, Any]]) -> None:
    """In the other process: do what the request says, and write the report.

    Args:
        path: Of the request.
        work: From the request and the folder to write to, the report.
    """
    logging.basicConfig(level=logging.INFO, stream=sys.stderr)
    try:
        report = work(json.loads(path.read_text(encoding="utf-8")), path.parent)
    except OnnxsiteError as error:
        traceback.print_exc()
        report = {"error": [type(error).__name__, error.what, error.why, error.remedy]}
    (path.parent / "report.json").write_text(json.dumps(report), encoding="utf-8")


def attempt(what: str, why: str, work: Callable[..., Any], *args: Any) -> Any:
    """In the other process: do what raises whatever a framework raises.

    Raises:
        SourceError: It did.
    """
    try:
        return work(*args)
    except OnnxsiteError:
        raise
    except Exception as error:
        traceback.print_exc()
        raise SourceError(
            what,
            f"{why} ({first_line(error)})",
            "Build with -v to see the traceback.",
        ) from error


def say(step: str) -> None:
    """In the other process: tell how far it is."""
    print(f"{STEP}{step}", flush=True)  # noqa: T201


def first_line(error: BaseException) -> str:
    """The class and first line of an error."""
    lines = COLOUR.sub("", str(error)).strip().splitlines()
    return f"{type(error).__name__}: {lines[0][:300]}" if lines else type(error).__name__
