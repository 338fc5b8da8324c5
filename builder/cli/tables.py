"""Tables that `build` prints from the reports beside the manifests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rich.markup import escape
from rich.table import Table

from builder.cli import console


def report_of(path: Path) -> dict[str, Any]:
    """The content of one model's report."""
    report: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return report


def explain(model: str, path: Path) -> None:
    """A table of the nodes that stay in fp32, and why, for the variants that have them alike."""
    report = report_of(path)
    tables: dict[str, list[str]] = {}
    for variant in report["variants"]:
        if variant["kept"]:
            tables.setdefault(json.dumps(variant["kept"]), []).append(_titled(report, variant))
    for kept, names in tables.items():
        title = f"{model}, {', '.join(names)}"
        table = Table(title=title, title_justify="left", box=None)
        for column in ("node", "operator", "stays in fp32 because", "measured"):
            table.add_column(column)
        for node in json.loads(kept):
            table.add_row(*map(escape, node.values()))
        console.out.print(table)
    if not tables:
        console.out.print(f"{model}: no node stays in fp32")


def _titled(report: dict[str, Any], variant: dict[str, Any]) -> str:
    """A variant's name, and its part's where there are several."""
    several = len({entry["part"] for entry in report["variants"]}) > 1
    return f"{variant['part']} {variant['name']}" if several else str(variant["name"])


def passes(model: str, path: Path) -> None:
    """A table of what the passes that were asked for save, if any were."""
    found = report_of(path)["passes"]
    if not found:
        return
    table = Table(title=f"{model}, by estimate", title_justify="left", box=None)
    for column in ("pass", "type", "on the wire", "raw", ""):
        table.add_column(column)
    for entry in found:
        sizes = [
            " → ".join(console.size(entry[side][key]) for side in ("before", "after"))
            if entry["kept"]
            else ""
            for key in ("wire", "size")
        ]
        said = "[green]kept[/]" if entry["kept"] else "[red]dropped[/]" if entry["fits"] else ""
        reason = f"{said}  {escape(entry['reason'])}".strip()
        table.add_row(f"{entry['pass']} {entry['asked']:g}", entry["dtype"], *sizes, reason)
    console.out.print(table)
