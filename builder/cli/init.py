"""`init`: the beginning of a recipe, written from what a source holds."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

import rich_click as click

from builder import plan, recipe
from builder.bundle.hosts import HOSTS
from builder.cli import console, flags
from builder.cli.inspect import imported
from builder.errors import OutputError
from builder.fetch import is_reference
from builder.model import Model, TensorSpec
from builder.recipe import ModelRecipe, Pinned
from builder.tasks import TASKS
from builder.tasks.run import join

SHOWN = 5
"""Words of a vocabulary that are shown."""


@click.command(epilog="[bold]Example:[/] python -m builder init pipeline.joblib --trust")
@click.argument("source")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path("site.toml"),
    show_default=True,
    help="File to write; one that is there stays as it is.",
)
@flags.source_options
@click.option("-v", "--verbose", is_flag=True, help="Show what the framework logs.")
@console.ends_well
def init(
    source: str,
    output: Path,
    sha256: str | None,
    weights: str | None,
    shapes: flags.Described,
    trust: bool,
    verbose: bool,
) -> None:
    """Write a commented recipe for a model.

    SOURCE is what [cyan]build[/] takes, and is imported to see what it holds.
    """
    console.log_to_stderr(verbose)
    if output.exists():
        raise OutputError(str(output), "it is there already", "Name another file with -o.")
    asked, models = imported(
        source, flags.asked(sha256=sha256, weights=weights, shapes=shapes, trust=trust)
    )
    folder = output.resolve().parent
    if Path(source).exists():
        source = _relative(source, folder)
    elif is_reference(asked.source):
        source = asked.source  # with its commit
    if weights is not None and not is_reference(weights):
        local = Pinned(ref=_relative(weights, folder))
        asked = asked.model_copy(update={"files": {**asked.files, plan.WEIGHTS: local}})
    text = "\n".join(lines(asked, models, source, output.name)) + "\n"
    recipe.parse(tomllib.loads(text), output.name)  # what is written can be read
    output.write_text(text, encoding="utf-8")
    console.out.print(f"{output}: build it with [cyan]python -m builder build --recipe {output}[/]")


def _relative(path: str, folder: Path) -> str:
    return Path(os.path.relpath(path, folder)).as_posix()


def lines(asked: ModelRecipe, models: Mapping[str, Model], source: str, name: str) -> Iterator[str]:
    """The lines of a recipe.

    Args:
        asked: The recipe that flags alone make.
        models: The parts that the source holds.
        source: As the recipe is to name it.
        name: Of the recipe's file.
    """
    text = json.dumps  # a JSON string is a TOML string
    whole = join([model.signature for model in models.values()])
    inputs = [spec for spec in whole.inputs if spec.source is None]
    yield f"# A recipe of onnxsite: python -m builder build --recipe {name} -o site"
    yield f"title = {text(asked.title, ensure_ascii=False)}"
    yield 'host = "generic"  # or one of ' + ", ".join(host for host in HOSTS if host != "generic")
    yield ""
    yield "[[models]]"
    yield f"source = {text(source, ensure_ascii=False)}"
    if len(models) > 1:
        yield f"# part = {text(next(iter(models)))}  # to build one of {', '.join(models)} alone"
    if asked.sha256 is not None:
        yield f"sha256 = {text(asked.sha256)}  # what was fetched; another file is refused"
    own = {} if source.startswith(plan.ZOO_PREFIX) else asked.files  # the zoo's go without saying
    for key, pinned in own.items():
        pin = f", sha256 = {text(pinned.sha256)}" if pinned.sha256 is not None else ""
        yield f"files.{key} = {{ ref = {text(pinned.ref, ensure_ascii=False)}{pin} }}"
    for key, shape in asked.shapes.items():
        yield f"shapes.{text(key)} = {text(shape)}  # a name is a free axis"
    for key, dtype in asked.types.items():
        yield f"types.{text(key)} = {text(dtype)}"
    if asked.trust:
        yield "trust = true  # the code in the source may run"
    yield f"id = {text(asked.id)}  # names the page: models/{asked.id}/"
    yield f"title = {text(asked.title, ensure_ascii=False)}"
    yield 'description = ""  # a sentence or two for visitors'
    yield f"task = {text(asked.task)}  # or one of {', '.join(t for t in TASKS if t != asked.task)}"
    yield 'licence = { name = "unstated" }  # an SPDX identifier, such as "MIT"'
    yield 'dtypes = "auto"  # or a list: ["fp32", "fp16", "int8", "q4"]'
    yield "# max_error = 0.01  # the largest error of any output, as a share of its own size"
    yield "# max_size = 25_000_000  # bytes of a variant"
    yield '# calibration = "samples"  # a folder of real inputs; conversions are better with one'
    yield ""
    yield "# It takes:"
    yield from (f"#   {_described(spec)}" for spec in inputs)
    yield "# It gives:"
    yield from (f"#   {_described(spec)}" for spec in whole.outputs)
    symbols = {d: None for s in inputs for d in s.shape if isinstance(d, str)}
    numbers = [spec for spec in inputs if spec.vocabulary is None]
    yield ""
    yield "# [models.options]  # what it is tried on, where there are no samples"
    sizes = ", ".join(f"{text(symbol)} = 8" for symbol in symbols)
    yield f"# dims = {{ {sizes} }}" if sizes else "# every size is fixed"
    for spec in numbers[:1]:
        yield f"# ranges = {{ {text(spec.name)} = [0, 1] }}  # lowest and highest value"
    yield ""
    yield "# [[models.samples]]  # visitors try the model on these, and so does the build"
    yield '# file = { ref = "sample.npz" }  # an array for each input'
    yield '# title = "A sample"'


def _described(spec: TensorSpec) -> str:
    shape = ", ".join(map(str, spec.shape))
    said = f"{spec.name} {spec.dtype}[{shape}]"
    if spec.vocabulary is None:
        return said
    rest = len(spec.vocabulary) - SHOWN
    words = ", ".join(spec.vocabulary[:SHOWN]) + (f" and {rest} more" if rest > 0 else "")
    return f"{said}, words: {words}".replace("\n", " ")
