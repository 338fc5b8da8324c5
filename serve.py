"""Serve a built site on this machine: `python serve.py [SITE] [--port 8000]`.

For another WSGI server: `create_app(Path("build"))` is the application.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from builder.errors import OnnxsiteError
from builder.server import create_app, serve

__all__ = ["create_app", "main"]


def main(arguments: list[str] | None = None) -> int:
    """Parse the command line and serve; returns the exit code."""
    parser = argparse.ArgumentParser(prog="serve.py", description="Serve a built site.")
    parser.add_argument("site", nargs="?", type=Path, default=Path("build"), help="(build)")
    parser.add_argument("--port", type=int, default=8000, help="the next free one if taken (8000)")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (127.0.0.1)")
    parser.add_argument("--prefix", default="/", help="sub-path, such as /repo/ (/)")
    parser.add_argument("--no-isolation", action="store_true", help="send no COOP, COEP and CORP")
    given = parser.parse_args(arguments)
    try:
        serve(
            given.site, given.host, given.port, isolate=not given.no_isolation, prefix=given.prefix
        )
    except OnnxsiteError as error:
        sys.stderr.write(f"error {error}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
