"""`python -m builder` and the `onnxsite` console script."""

from __future__ import annotations

import signal
import sys
from types import FrameType

from builder.cli import cli


def _terminate(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt  # so that a half-written output is cleaned up as on Ctrl-C


def main() -> None:
    """Run the command line; exit code 0, 1 for a failed build, 2 for a wrong call."""
    signal.signal(signal.SIGTERM, _terminate)
    sys.exit(cli(prog_name="onnxsite"))


if __name__ == "__main__":
    main()
