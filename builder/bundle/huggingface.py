"""A model's folder in the layout of the Hugging Face Hub, as transformers.js loads it.

    config.json, tokenizer.json, …    from beside the source, or out of the recipe's files
    onnx/model.onnx                   and its variants, each as one file where that can be
    README.md, report.json            verdicts, licence, origin; every attempt

It holds the model alone: stages around it are the site's own, transformers.js has others.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from builder.bundle import model_card
from builder.bundle.weights import PROTO_LIMIT, restore
from builder.bundle_cache import MANIFEST, REPORT
from builder.errors import UsageError
from builder.fetch import fetch, locate, parse
from builder.plan import Job, Plan
from builder.recipe import VariantName

if TYPE_CHECKING:
    from builder.bundle import _manifest as types

CONFIG = "config.json"
FOLDER = "onnx"

COMPANIONS = (
    CONFIG,
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "vocab.txt",
    "merges.txt",
    "chat_template.jinja",
    "preprocessor_config.json",
    "processor_config.json",
)
"""Files beside a model on the hub that transformers.js, or the Python library, looks for."""

PREPARING = ("tokenizer.json", "preprocessor_config.json")
"""A pipeline needs one of them."""

TRANSFORMERS: dict[VariantName, tuple[str, str]] = {
    "fp32": ("", "fp32"),
    "int8": ("_quantized", "q8"),
    "fp16": ("_fp16", "fp16"),
    "q4": ("_q4", "q4"),
    "q4f16": ("_q4f16", "q4f16"),
    "uint8": ("_uint8", "uint8"),
}
"""What transformers.js calls a variant: the ending of its file, and its `dtype`. On the CPU it
takes `q8` unless told otherwise, which is our `int8`: the one that both devices compute right."""

DEFAULTS = ("fp32", "q8")
"""What transformers.js takes on the GPU and on the CPU if nobody says otherwise."""


def check(plan: Plan) -> None:
    """Refuse what can't become such a folder, before anything is built.

    Raises:
        UsageError: More than one model, no usable config.json, or a variant without a name there.
        FetchError: A companion that the recipe pins can't be fetched.
    """
    if len(plan.jobs) != 1:
        names = ", ".join(job.recipe.id for job in plan.jobs)
        raise UsageError("layout hf", f"a folder holds one model, not {names}", "Build each alone.")
    (job,) = plan.jobs
    if "q8" in job.recipe.dtypes:
        raise UsageError(
            "layout hf",
            "q8 has no name there: what transformers.js calls q8 is written from int8",
            "Ask for int8 instead.",
        )
    _config(companions(job))


def companions(job: Job) -> dict[str, Path]:
    """Files to copy by their names: those of the recipe's `files`, else those beside the source."""
    found: dict[str, Path] = {}
    source = job.recipe.source
    hub = source.startswith("hf:")
    if hub or ":" not in source:
        path = locate(job.recipe, base=job.base).files[source] if hub else job.base / source
        folder = path if path.is_dir() else path.parent
        # On the hub graphs lie in a folder of their own, below their companions.
        around = (folder, folder.resolve().parent)
        lies = next((place for place in around if (place / CONFIG).is_file()), folder)
        found = {name: lies / name for name in COMPANIONS if (lies / name).is_file()}
    for pinned in job.recipe.files.values():
        reference = parse(pinned.ref)
        name = Path(reference.member if reference else pinned.ref).name
        if name in COMPANIONS:
            found[name] = fetch(pinned, base=job.base)
    return found


def write_folder(root: Path, plan: Plan, bundles: Sequence[Path]) -> list[types.Manifest]:
    """Fill the empty folder `root` with the one model of a plan that `check` lets pass.

    Returns:
        Its manifest, but for the web runtime, which is no part of the layout.

    Raises:
        UsageError: config.json isn't there any more.
    """
    (job,), (bundle,) = plan.jobs, bundles
    manifest = cast("types.Manifest", json.loads((bundle / MANIFEST).read_text(encoding="utf-8")))
    found = companions(job)
    _warn(manifest, found)
    (root / FOLDER).mkdir()
    (stage,) = [stage for stage in manifest["stages"] if stage["kind"] == "model"]
    chunks: dict[str, int] = {}
    rows: list[model_card.Row] = []
    for variant in stage["variants"]:
        ending, dtype = TRANSFORMERS[variant["dtype"]]
        name = f"model{ending}.onnx"
        files = write_graph(variant, bundle, root / FOLDER / name)
        if files[1:]:
            chunks[name] = len(files) - 1
        size = sum(file.stat().st_size for file in files)
        rows.append(model_card.Row(f"{FOLDER}/{name}", dtype, size, variant["verdict"]))
    for name, path in found.items():
        shutil.copyfile(path, root / name)
    text = _configured(found, [row.dtype for row in rows], chunks)
    if text is not None:
        (root / CONFIG).write_text(text, encoding="utf-8")
    (root / "README.md").write_text(model_card.card(manifest, rows), encoding="utf-8")
    shutil.copyfile(bundle / REPORT, root / REPORT)
    return [manifest]


def write_graph(
    variant: types.Variant, bundle: Path, target: Path, limit: int = PROTO_LIMIT
) -> list[Path]:
    """Write a variant's graph with its weights inside, or beside it where it is above `limit`.

    Returns:
        The files: `model.onnx`, and `model.onnx_data`, `model.onnx_data_1`, … if there are any.
    """
    blobs = {
        blob["name"]: b"".join((bundle / shard["path"]).read_bytes() for shard in blob["shards"])
        for blob in variant["weights"]
    }
    graph = (bundle / variant["graph"]["path"]).read_bytes()
    proto, chunks = restore(graph, blobs, f"{target.name}_data", limit)
    contents = {target.name: proto.SerializeToString(deterministic=True), **chunks}
    for name, content in contents.items():
        target.with_name(name).write_bytes(content)
    return [target.with_name(name) for name in contents]


def _config(found: Mapping[str, Path]) -> dict[str, Any]:
    remedy = (
        "Put the model's config.json beside the .onnx file or one folder above, or name it in a "
        'recipe: files.config = { ref = "…/config.json" }.'
    )
    if CONFIG not in found:
        raise UsageError("layout hf", "transformers.js loads no model without config.json", remedy)
    try:
        content = json.loads(found[CONFIG].read_text(encoding="utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise UsageError(CONFIG, f"it isn't JSON ({error})", remedy) from error
    if not isinstance(content, dict) or "model_type" not in content:
        raise UsageError(CONFIG, "it has no model_type, by which transformers.js goes", remedy)
    if content.get("is_encoder_decoder"):
        raise UsageError(
            CONFIG,
            "its model is an encoder with a decoder, which transformers.js wants as two graphs",
            "Layout hf is for models of one graph.",
        )
    return content


def _configured(
    found: Mapping[str, Path], names: Sequence[str], chunks: Mapping[str, int]
) -> str | None:
    """config.json with what holds for these files; None if the original says it right."""
    content = _config(found)
    original = content.get("transformers.js_config", {})
    own = {k: v for k, v in original.items() if k not in ("dtype", "use_external_data_format")}
    if original.get("dtype") in names:
        own["dtype"] = original["dtype"]
    elif not set(DEFAULTS) <= set(names):
        # Else a page that doesn't choose would ask for a file that isn't there.
        own["dtype"] = names[0]
    if chunks:
        own["use_external_data_format"] = dict(chunks)
    if own == original:
        return None
    content.pop("transformers.js_config", None)
    if own:
        content["transformers.js_config"] = own
    return json.dumps(content, ensure_ascii=False, indent=2) + "\n"


def _warn(manifest: types.Manifest, found: Mapping[str, Path]) -> None:
    around = [stage["name"] for stage in manifest["stages"] if stage["kind"] != "model"]
    said = []
    if around:
        said.append(f"left out: {' and '.join(around)}; in layout hf the model stands alone")
    if not any(name in found for name in PREPARING):
        said.append(
            f"there is neither {' nor '.join(PREPARING)}: transformers.js loads the model, but "
            "pipelines need one of them"
        )
    elif "tokenizer.json" in found and "tokenizer_config.json" not in found:
        said.append("there is no tokenizer_config.json: transformers.js can't load the tokenizer")
    manifest["events"] += [{"level": "warning", "step": "layout", "message": text} for text in said]
