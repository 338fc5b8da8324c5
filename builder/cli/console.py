"""What commands print, and how they end: shared by all verbs."""

from __future__ import annotations

import functools
import json
import logging
import sys
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from rich.console import Console

from builder.errors import OnnxsiteError

P = ParamSpec("P")
R = TypeVar("R")

out = Console(highlight=False, soft_wrap=True, width=None if sys.stdout.isatty() else 200)
"""Wide where it isn't a terminal: a log or a pipe keeps a table's rows on one line each."""

err = Console(stderr=True, highlight=False, soft_wrap=True)

INTERRUPTED = 1


def print_json(content: Any) -> None:
    """One JSON object on standard output."""
    sys.stdout.write(json.dumps(content, ensure_ascii=False, indent=2) + "\n")


def size(count: float) -> str:
    """Bytes for people, in powers of 1000 as download managers and hosts count them."""
    for unit in ("B", "kB", "MB"):
        if count < 1000 or unit == "MB":
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    raise AssertionError


def log_to_stderr(verbose: bool) -> None:
    """Show what libraries log, with -v."""
    logging.basicConfig(level=logging.INFO if verbose else logging.ERROR, stream=sys.stderr)


def ends_well(command: Callable[P, R]) -> Callable[P, R]:
    """Turn the errors of `builder.errors` and Ctrl-C into a message and an exit code.

    A command that has `--json` gets its error as JSON on standard output as well.
    """

    @functools.wraps(command)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return command(*args, **kwargs)
        except OnnxsiteError as error:
            place = "".join(f"{note}: " for note in getattr(error, "__notes__", []))
            if kwargs.get("as_json"):
                kind = type(error).__name__
                detail = {"what": error.what, "why": error.why, "remedy": error.remedy}
                print_json({"error": {"type": kind, "model": place.rstrip(": ") or None, **detail}})
            err.print(f"[bold red]error[/] {place}", end="")
            err.print(str(error), markup=False)
            sys.exit(error.exit_code)
        except KeyboardInterrupt:
            err.print("\n[bold]interrupted[/]; the output is as it was before")
            sys.exit(INTERRUPTED)

    return wrapped
