"""What was asked for: a TOML file, `[tool.builder]` in a pyproject.toml, or flags."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, Literal, get_args

import tomli_w
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from builder.errors import UsageError

VariantName = Literal["fp32", "fp16", "int8", "q4", "q4f16", "q8", "uint8"]
CalibrationMethod = Literal["minmax", "entropy", "percentile"]
MetricName = Literal[
    "snr", "top1", "cosine", "neighbours", "boxes", "text", "tokens", "greedy", "wer"
]
Isolate = Literal["ask", "auto", "never"]
Shape = list[int | str]
ElementType = Literal[
    "float32", "float16", "float64", "int8", "uint8", "int16", "int32", "int64", "bool"
]

OPT_IN: tuple[VariantName, ...] = ("q8", "uint8")
"""Variants that "auto" doesn't try: slower and less right on WASM than `int8`, and nowhere else."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Pinned(_Strict):
    """A file out of a published package, pinned by content.

    Attributes:
        ref: `pypi:NAME==VERSION#PATH/IN/WHEEL`, `npm:NAME@VERSION#PATH/IN/PACKAGE` or
            `hf:OWNER/NAME@COMMIT#PATH`, an address, or a path relative to the recipe.
        sha256: Of the file itself, not of the package; may be left out for a local path only.
    """

    ref: str
    sha256: str | None = Field(default=None, pattern=r"^[0-9a-f]{64}$")


class Licence(_Strict):
    """The model's licence: an SPDX identifier or 'unstated'."""

    name: str = "unstated"
    note: str | None = None
    url: str | None = None


class Sample(_Strict):
    """A file that visitors can try the model on, and that the build measures accuracy on."""

    file: Pinned
    title: str
    credit: str = ""
    mime: str = "application/octet-stream"


class ModelRecipe(_Strict):
    """One model of a site. Everything but `source` has a default.

    Attributes:
        source: A path to a model, `package.module:factory`, a key of `files`, or what is fetched:
            a reference as in `Pinned`, an address, or `hf:OWNER/NAME`, a whole folder of the hub.
        sha256: Of a source that is fetched, but for a folder, which its commit pins.
        part: The part to build of a model that has several, like `encoder`.
        trust: Whether code inside the source may run: a pickle's, or of Keras's Lambda layers.
        files: Pinned files, fetched before import and handed to a factory by name.
        shapes: Corrected shapes of inputs, by name, where the model's own are false; of
            TorchScript, which has none, the shapes of all its inputs.
        types: Element types of TorchScript's inputs, by name, where they aren't float32.
        options: What the task wants to know; its keys are documented with the task.
        dtypes: Variants to ship; "auto" tries all but `OPT_IN` and ships what no other beats in
            size and error.
        metric: What variants are judged by, where the task's own isn't wanted.
        tolerance: What the metric must reach, by variant.
        max_error: Largest root mean square error of any output, as a share of the output's own.
        max_size: Largest graph and weights of a variant, in bytes.
        calibration: A folder of files like the samples, relative to the recipe, that conversions
            are calibrated on.
        calibration_method: How `q8` gets the ranges of activations from them.
        prune: Share of the weights of each large layer that become 0, the smallest ones; in every
            variant whose gate holds with it.
        cluster: Number of distinct values that each large layer has, times a scale for each output
            channel; in every variant with 8 bits or more whose gate holds with it.
    """

    id: str = Field(default="", pattern=r"^([a-z0-9][a-z0-9._-]*)?$")
    title: str = ""
    description: str = ""
    task: str = "tensors"
    source: str
    sha256: str | None = Field(default=None, pattern=r"^[0-9a-f]{64}$")
    part: str | None = None
    homepage: str | None = None
    revision: str | None = None
    licence: Licence = Licence()
    trust: bool = False
    files: dict[str, Pinned] = {}
    shapes: dict[str, Shape] = {}
    types: dict[str, ElementType] = {}
    options: dict[str, Any] = {}
    samples: list[Sample] = []
    dtypes: Literal["auto"] | list[VariantName] = "auto"
    metric: MetricName | None = None
    tolerance: dict[VariantName, float] = {}
    max_error: float | None = Field(default=None, gt=0, lt=1)
    max_size: int | None = Field(default=None, gt=0)
    calibration: str | None = None
    calibration_method: CalibrationMethod = "minmax"
    prune: float | None = Field(default=None, gt=0, lt=1)
    cluster: int | None = Field(default=None, ge=2, le=256)

    @property
    def every(self) -> list[VariantName]:
        """The variants that are tried."""
        if self.dtypes != "auto":
            return self.dtypes
        return [name for name in get_args(VariantName) if name not in OPT_IN]


class Recipe(_Strict):
    """A whole site.

    Attributes:
        host: A key of `builder.bundle.hosts.HOSTS`.
        isolate: Whether the service worker isolates pages, for threads, on hosts that don't: when
            the visitor says so, by itself, or never.
        offline: Whether the site has a service worker at all. A site that had one gets one that
            removes it.
    """

    title: str = "Models in your browser"
    host: str = "generic"
    isolate: Isolate = "ask"
    offline: bool = True
    models: list[ModelRecipe] = []


def load(path: Path) -> Recipe:
    """Read a recipe from a TOML file, or from `[tool.builder]` of a pyproject.toml.

    Raises:
        UsageError: The file can't be read, isn't TOML, or has a key or value of the wrong kind.
    """
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(str(path), f"the recipe can't be read ({error})") from error
    except tomllib.TOMLDecodeError as error:
        raise UsageError(str(path), f"the recipe isn't valid TOML ({error})") from error
    if path.name == "pyproject.toml":
        content = content.get("tool", {}).get("builder", {})
    return parse(content, str(path))


def parse(content: dict[str, Any], origin: str) -> Recipe:
    """Check a recipe's content; `origin` names it in the error.

    Raises:
        UsageError: A key or value of the wrong kind, each named with its place.
    """
    try:
        return Recipe.model_validate(content)
    except ValidationError as error:
        faults = "; ".join(
            f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in error.errors()
        )
        raise UsageError(origin, f"the recipe is wrong ({faults})") from error


def dump(recipe: Recipe) -> str:
    """The resolved recipe as TOML, to be written beside the output."""
    return tomli_w.dumps(recipe.model_dump(exclude_none=True))
