"""`build`: from models to a site."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import rich_click as click
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from builder import pipeline, plan, recipe
from builder.bundle.hosts import HOSTS
from builder.bundle.manifest import variants as variants_of
from builder.cli import console, flags, tables
from builder.precision import FORMS
from builder.tasks import TASKS

if TYPE_CHECKING:
    from builder.bundle import _manifest

DTYPES = get_args(recipe.VariantName)
AUTO = "auto"

MB = 1_000_000
"""As hosts and shops count."""

STEPS_PER_MODEL = 4 + len(FORMS)
"""Import, normal form and so on: what the progress bar counts; more or fewer do no harm."""


SUMMARISED = ("name", "dtype", "compute", "devices", "size", "verdict")
"""Keys of a variant that `--json` prints."""


def _dtypes(
    _context: click.Context, _parameter: click.Parameter, values: tuple[str, ...]
) -> list[str] | str:
    """Accept `--dtype fp32,int8` as well as a repeated option."""
    names = [name.strip() for value in values for name in value.split(",") if name.strip()]
    if names == [AUTO]:
        return AUTO
    for name in names:
        if name not in DTYPES:
            raise click.BadParameter(f"'{name}' isn't one of {AUTO}, {', '.join(DTYPES)}")
    return names


@click.command(
    epilog="""\
[bold]Examples[/]

A model file: [cyan]python -m builder build model.onnx -o site[/]

scikit-learn: [cyan]python -m builder build pipeline.joblib --trust[/]

TensorFlow: [cyan]python -m builder build model.keras[/]

PyTorch: [cyan]python -m builder build nets.py:make_model --weights weights.pth[/]

From the hub: [cyan]python -m builder build hf:sentence-transformers/all-MiniLM-L6-v2[/]

Ready-made: [cyan]python -m builder build zoo:efficientnet-lite0 zoo:magika[/]

A recipe, for one host: [cyan]python -m builder build --recipe site.toml --host cloudflare-pages[/]
"""
)
@click.argument("sources", nargs=-1, metavar="SOURCE…")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    default=Path("build"),
    show_default=True,
    help="Folder to write; replaced as a whole, and only if it was built here.",
)
@click.option(
    "--recipe",
    "recipe_path",
    type=click.Path(path_type=Path),
    help="TOML file, or a pyproject.toml with [[tool.builder]]; flags override it.",
)
@click.option(
    "--dtype",
    "dtypes",
    multiple=True,
    callback=_dtypes,
    help=f"Variants to make: {', '.join(DTYPES)}; repeat it or separate by commas. "
    f"One that fails its gate is left out, with its reason. {AUTO} tries all but "
    f"{' and '.join(recipe.OPT_IN)}, and leaves out those that another beats in both size and "
    f"error.  [default: {AUTO}]",
)
@click.option(
    "--max-error",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    help="Largest error of any output, root mean square, as a share of the output's own: 0.01.",
)
@click.option("--max-size", type=click.FloatRange(0, min_open=True), help="Largest variant, in MB.")
@click.option(
    "--calibration",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Folder of files like the samples (.npz for tensors) to calibrate conversions on.",
)
@click.option(
    "--calibration-method",
    type=click.Choice(get_args(recipe.CalibrationMethod)),
    help="How q8 gets the ranges of activations.  [default: minmax]",
)
@click.option(
    "--prune",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    help="Share of the weights of each large layer that become 0, the smallest: 0.3. Layers, and "
    "variants, whose gate fails with it stay as they are.",
)
@click.option(
    "--cluster",
    type=click.IntRange(2, 256),
    help="Distinct values that each large layer has, stored as indices into them: 64. Likewise.",
)
@click.option("--explain", is_flag=True, help="Say for each node that stays in fp32 why.")
@click.option("--task", type=click.Choice(list(TASKS)), help="What the model does.")
@click.option("--host", type=click.Choice(list(HOSTS)), help="Where the site will be hosted.")
@click.option(
    "--layout",
    type=click.Choice(get_args(plan.LayoutName)),
    default="site",
    show_default=True,
    help="What to write: a site, or one model's folder as on the Hugging Face Hub, which "
    "transformers.js loads.",
)
@click.option(
    "--isolate",
    type=click.Choice(get_args(recipe.Isolate)),
    help="Threads on hosts that send no isolation headers: ask the visitor, do it by itself, or "
    "never.  [default: ask]",
)
@click.option(
    "--offline/--no-offline",
    default=None,
    help="Whether a service worker keeps the site for offline use.  [default: offline]",
)
@flags.source_options
@click.option("--part", help="Build this part alone, of a model that has several: encoder, say.")
@click.option("--title", help="Title of the site, and of its model if there is one.")
@click.option("--dry-run", is_flag=True, help="Say what would be done, and stop.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
@click.option("-q", "--quiet", is_flag=True, help="Print nothing but errors.")
@click.option("-v", "--verbose", is_flag=True, help="Print every event of the build.")
@console.ends_well
def build(
    sources: tuple[str, ...],
    output: Path,
    recipe_path: Path | None,
    dtypes: list[recipe.VariantName] | Literal["auto"],
    max_error: float | None,
    max_size: float | None,
    calibration: Path | None,
    calibration_method: recipe.CalibrationMethod | None,
    prune: float | None,
    cluster: int | None,
    explain: bool,
    task: str | None,
    host: str | None,
    layout: plan.LayoutName,
    isolate: recipe.Isolate | None,
    offline: bool | None,
    sha256: str | None,
    weights: str | None,
    shapes: flags.Described,
    trust: bool,
    part: str | None,
    title: str | None,
    dry_run: bool,
    as_json: bool,
    quiet: bool,
    verbose: bool,
) -> None:
    """Turn models into a folder of static files.

    SOURCE is an .onnx file, a folder of the Hugging Face Hub, a .gguf file, Whisper as CTranslate2
    has it, a trained estimator of scikit-learn, LightGBM or XGBoost, a model of TensorFlow, Keras,
    TensorFlow Lite or TensorFlow.js, PyTorch's exported program (.pt2) or TorchScript, a PyTorch
    factory as [cyan]package.module:factory[/], or [cyan]zoo:NAME[/] (see [cyan]zoo list[/]).

    It is fetched from where it is published as [cyan]pypi:NAME==VERSION#PATH[/],
    [cyan]npm:NAME@VERSION#PATH[/], [cyan]hf:OWNER/NAME[/] or [cyan]https://…/model.onnx[/].
    """
    console.log_to_stderr(verbose)
    sizes, types = flags.split(shapes)
    what = plan.make(
        sources,
        output,
        recipe=recipe.load(recipe_path) if recipe_path else None,
        recipe_base=recipe_path.resolve().parent if recipe_path else None,
        flags=plan.Flags(
            dtypes=dtypes,
            task=task,
            host=host,
            isolate=isolate,
            offline=offline,
            trust=trust,
            part=part,
            title=title,
            max_error=max_error,
            max_size=round(max_size * MB) if max_size is not None else None,
            calibration=calibration,
            calibration_method=calibration_method,
            prune=prune,
            cluster=cluster,
            layout=layout,
            sha256=sha256,
            weights=weights,
            shapes=sizes,
            types=types,
        ),
    )
    if dry_run:
        lines = list(plan.steps(what))
        if as_json:
            console.print_json({"plan": lines})
        else:
            for line in lines:
                console.out.print(line, markup=False)
        return
    result = _run(what, silent=quiet or as_json)
    if as_json:
        console.print_json(_summary(result))
    elif not quiet:
        _show(result, verbose)
        if layout == "site":
            console.out.print(f"See it with [cyan]python -m builder serve {result.out}[/]")
        for model, path in result.reports.items():
            tables.passes(model, path)
        if explain:
            for model, path in result.reports.items():
                tables.explain(model, path)


def _run(what: plan.Plan, *, silent: bool) -> pipeline.Result:
    with Progress(
        SpinnerColumn(),
        TextColumn("[bold]{task.fields[model]}"),
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TimeElapsedColumn(),
        console=console.err,
        transient=True,
        disable=silent or not console.err.is_terminal,
    ) as progress:
        bar = progress.add_task("", total=len(what.jobs) * STEPS_PER_MODEL + 1, model="")

        def report(model: str, step: str) -> None:
            progress.update(bar, advance=1, description=step, model=model)

        return pipeline.run(what, report)


def _summary(result: pipeline.Result) -> dict[str, Any]:
    return {
        "output": str(result.out),
        "models": [
            {
                "id": manifest["id"],
                "title": manifest["title"],
                "task": manifest["task"],
                "cached": manifest["id"] in result.cached,
                "variants": [
                    {
                        key: variant[key]
                        for key in ("name", "dtype", "compute", "devices", "size", "verdict")
                    }
                    for variant in variants_of(manifest)
                ],
                "dropped": manifest["dropped"],
                "passes": tables.report_of(result.reports[manifest["id"]])["passes"],
                "events": manifest["events"],
            }
            for manifest in result.manifests
        ],
    }


def _show(result: pipeline.Result, verbose: bool) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name, justify in (
        ("model", "left"),
        ("variant", "left"),
        ("size", "right"),
        ("change", "right"),
        ("error", "right"),
        ("verdict", "left"),
    ):
        table.add_column(name, justify=justify)  # type: ignore[arg-type]
    for manifest in result.manifests:
        variants = variants_of(manifest)
        full = next((v["size"] for v in variants if v["name"] == "fp32"), None)
        for variant in variants:
            change = f"{100 * (variant['size'] / full - 1):+.0f} %" if full else ""
            verdict = variant["verdict"]
            table.add_row(
                manifest["id"],
                variant["name"],
                console.size(variant["size"]),
                "" if variant["name"] == "fp32" else change,
                f"{verdict.get('maxAbsError', 0):.2g}",
                f"[green]pass[/]  {verdict['reason']}",
            )
        for dropped in manifest["dropped"]:
            table.add_row(
                manifest["id"],
                dropped["dtype"],
                "",
                "",
                "",
                f"[red]left out[/]  {dropped['reason']}",
            )
    console.out.print(table)
    for manifest in result.manifests:
        _show_events(manifest, console.out, verbose)
    count = len(result.manifests)
    console.out.print(f"\n{result.out}: {count} model{'s' * (count != 1)}, {_total(result.out)}.")


def _show_events(manifest: _manifest.Manifest, to: Console, verbose: bool) -> None:
    for event in manifest["events"]:
        if verbose or event["level"] == "warning":
            style = "yellow" if event["level"] == "warning" else "dim"
            to.print(f"[{style}]{event['level']}[/] {manifest['id']}, {event['step']}: ", end="")
            to.print(event["message"], markup=False)


def _total(out: Path) -> str:
    return console.size(sum(path.stat().st_size for path in out.rglob("*") if path.is_file()))
