"""`inspect`: what a source holds, before anything is built."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import onnx_ir as ir
import rich_click as click
from rich.table import Table

from builder import plan, sources
from builder.cli import console, flags, netron
from builder.fetch import locate
from builder.model import Model, TensorSpec
from builder.recipe import ModelRecipe
from builder.webruntime.support import cpu_operators

BYTES_PER_WEIGHT = {"fp32": 4.0, "fp16": 2.0, "int8": 1.0}


@click.command(epilog="[bold]Example:[/] python -m builder inspect model.onnx --json")
@click.argument("source")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
@click.option("--netron", "look", is_flag=True, help="Draw the graph in a browser, until Ctrl-C.")
@flags.source_options
@click.option("-v", "--verbose", is_flag=True, help="Show what the framework logs.")
@console.ends_well
def inspect(
    source: str,
    as_json: bool,
    look: bool,
    sha256: str | None,
    weights: str | None,
    shapes: flags.Described,
    trust: bool,
    verbose: bool,
) -> None:
    """Show a model's inputs, outputs, operators and sizes, and where it can run.

    SOURCE is what [cyan]build[/] takes. A source that can't be built is refused with the reason
    that [cyan]build[/] would give.
    """
    console.log_to_stderr(verbose)
    if look:
        netron.require()
    recipe, models = imported(
        source, flags.asked(sha256=sha256, weights=weights, shapes=shapes, trust=trust)
    )
    reports = {name: describe(model) for name, model in models.items()}
    licence = {"licence": recipe.licence.name}
    if as_json:
        (whole, *others) = reports.values()
        console.print_json({**({"parts": reports} if others else whole), **licence})
    for index, (name, report) in enumerate(reports.items() if not as_json else ()):
        if index:
            console.out.print()
        part = f", {name}" if len(reports) > 1 else ""
        _show(f"{recipe.title}{part}", {**report, **licence})
    if look:
        netron.show(models)


def imported(source: str, asked: plan.Flags) -> tuple[ModelRecipe, Mapping[str, Model]]:
    """What `build` would be asked for by this source and flags alone, with its pin, and the parts
    that it would import.

    Raises:
        OnnxsiteError: What it would be refused with.
    """
    job = plan.make([source], Path("build"), flags=asked).jobs[0]
    located = locate(job.recipe, base=job.base)
    with tempfile.TemporaryDirectory(prefix="onnxsite-") as work:
        parts = sources.load_parts(
            located.recipe, base=job.base, files=located.files, work=Path(work)
        )
    for model in parts.models.values():
        located.tell(model)
    return located.recipe, parts.models


def describe(model: Model) -> dict[str, Any]:
    """A model's signature, operators, parameters and estimated sizes, ready for JSON."""
    nodes = list(ir.traversal.RecursiveGraphIterator(model.ir.graph))
    operators = Counter(
        f"{node.domain}.{node.op_type}" if node.domain else node.op_type for node in nodes
    )
    on_cpu = set(cpu_operators(model.ir))
    parameters = sum(
        value.const_value.size
        for value in model.ir.graph.initializers.values()
        if value.const_value is not None and value.const_value.dtype.is_floating_point()
    ) + sum(
        attribute.value.size
        for node in nodes
        if node.op_type == "Constant"
        for attribute in node.attributes.values()
        if attribute.type == ir.AttributeType.TENSOR and attribute.value.dtype.is_floating_point()
    )
    return {
        "source": asdict(model.provenance),
        "ir_version": model.ir.ir_version,
        "opset": model.ir.opset_imports.get("", None),
        "inputs": [asdict(spec) for spec in model.signature.inputs],
        "outputs": [asdict(spec) for spec in model.signature.outputs],
        "parameters": parameters,
        "estimated_bytes": {name: int(parameters * n) for name, n in BYTES_PER_WEIGHT.items()},
        "operators": [
            {"name": name, "count": count, "devices": ["wasm"] + ["webgpu"] * (name not in on_cpu)}
            for name, count in sorted(operators.items(), key=lambda item: (-item[1], item[0]))
        ],
        "events": [asdict(event) for event in model.events],
    }


def _show(title: str, report: dict[str, Any]) -> None:
    console.out.print(f"[bold]{title}[/]  {report['source']['name']}")
    console.out.print(
        f"opset {report['opset']}, IR {report['ir_version']}, {report['parameters']:,} parameters, "
        f"licence {report['licence']}"
    )
    sizes = ", ".join(
        f"{name} {console.size(size)}" for name, size in report["estimated_bytes"].items()
    )
    console.out.print(f"about {sizes}\n")
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("", "name", "dtype", "shape"):
        table.add_column(column)
    for side in ("inputs", "outputs"):
        for spec in report[side]:
            table.add_row(side[:-1], spec["name"], spec["dtype"], _shape(spec))
    console.out.print(table)
    console.out.print()
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("operator")
    table.add_column("count", justify="right")
    table.add_column("runs on")
    for entry in report["operators"]:
        table.add_row(entry["name"], str(entry["count"]), ", ".join(entry["devices"]))
    console.out.print(table)
    for event in report["events"]:
        console.out.print(f"{event['level']}: {event['message']}", markup=False)


def _shape(spec: dict[str, Any] | TensorSpec) -> str:
    shape = spec["shape"] if isinstance(spec, dict) else spec.shape
    return " x ".join(map(str, shape)) or "scalar"
