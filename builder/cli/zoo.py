"""`zoo`: the ready-made recipes."""

from __future__ import annotations

import dataclasses

import rich_click as click
from rich.table import Table

from builder import zoo as recipes
from builder.cli import console


@click.group()
def zoo() -> None:
    """Recipes of real models, pinned by hash."""


@zoo.command("list", epilog="[bold]Example:[/] python -m builder zoo list --json")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
@console.ends_well
def list_(as_json: bool) -> None:
    """Show every recipe with its task and licence."""
    entries = recipes.entries()
    if as_json:
        console.print_json({"models": [dataclasses.asdict(entry) for entry in entries]})
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("name", "title", "task", "licence"):
        table.add_column(name)
    for entry in entries:
        table.add_row(f"zoo:{entry.name}", entry.title, entry.task, entry.licence)
    console.out.print(table)
