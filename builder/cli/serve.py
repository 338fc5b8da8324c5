"""`serve`: look at a built site."""

from __future__ import annotations

from pathlib import Path

import rich_click as click

from builder.cli import console
from builder.server import serve as run_server


@click.command(epilog="[bold]Example:[/] python -m builder serve build --port 8080")
@click.argument("site", type=click.Path(path_type=Path), default=Path("build"))
@click.option("--port", default=8000, show_default=True, help="Port; the next free one if taken.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--prefix", default="/", show_default=True, help="Sub-path, as /repo/ on Pages.")
@click.option(
    "--no-isolation", is_flag=True, help="Send no COOP and COEP: as hosts without headers."
)
@console.ends_well
def serve(site: Path, port: int, host: str, prefix: str, no_isolation: bool) -> None:
    """Serve a built site on this machine, with the headers that a good host sends."""
    run_server(site, host=host, port=port, prefix=prefix, isolate=not no_isolation)
