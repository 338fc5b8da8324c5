"""The command line: one module per verb, each a thin layer over the library."""

from __future__ import annotations

import rich_click as click

from builder import __version__
from builder.cli import build, init, inspect, serve, zoo

click.rich_click.TEXT_MARKUP = "rich"
click.rich_click.SHOW_ARGUMENTS = True
click.rich_click.MAX_WIDTH = 100
click.rich_click.COMMAND_GROUPS = {
    "*": [
        {"name": "Make a site", "commands": ["build", "serve"]},
        {"name": "Look around", "commands": ["inspect", "init", "zoo"]},
    ]
}
click.rich_click.OPTION_GROUPS = {
    "* build": [
        {
            "name": "What to build",
            "options": ["--recipe", "--task", "--dtype", "--part"],
        },
        {
            "name": "How it is imported",
            "options": ["--sha256", "--weights", "--shape", "--trust"],
        },
        {"name": "Where it goes", "options": ["--output", "--layout", "--host", "--title"]},
        {"name": "What is shown", "options": ["--dry-run", "--json", "--quiet", "--verbose"]},
    ]
}


@click.group(
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="[bold]Example:[/] python -m builder build zoo:magika && python -m builder serve",
)
@click.version_option(__version__, prog_name="onnxsite")
def cli() -> None:
    """From a trained model to a verified static site that runs it in the visitor's browser."""


for command in (build.build, inspect.inspect, init.init, serve.serve, zoo.zoo):
    cli.add_command(command)
