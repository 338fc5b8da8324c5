"""The manifest as Python sees it: types made from the schema, validation, and writing."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from jsonschema import Draft202012Validator

from builder.errors import ConversionError
from builder.generation import Generation
from builder.model import Event, Signature, TensorSpec, Verdict

if TYPE_CHECKING:
    from builder.bundle import _manifest as types

SCHEMA = Path(__file__).with_name("manifest.schema.json")
FORMAT = 1


@cache
def _validator() -> Draft202012Validator:
    return Draft202012Validator(json.loads(SCHEMA.read_text(encoding="utf-8")))


def variants(manifest: types.Manifest) -> list[types.Variant]:
    """What a model can be shipped as: each variant that all of its parts have, as the whole is.

    Sizes and memory are added up; what a device must have, and the verdict, are those of the part
    that asks for the most.
    """
    parts = [stage["variants"] for stage in manifest["stages"] if stage["kind"] == "model"]
    made = []
    for first in parts[0]:
        alike = [v for part in parts for v in part if v["name"] == first["name"]]
        if len(alike) < len(parts):
            continue
        worst = min((v["verdict"] for v in alike), key=lambda verdict: verdict.get("snr", 0.0))
        made.append(
            {
                **first,
                "size": sum(variant["size"] for variant in alike),
                "peakMemory": sum(variant["peakMemory"] for variant in alike),
                "verdict": worst,
            }
        )
    return cast("list[types.Variant]", made)


def validate(manifest: Any, origin: str) -> types.Manifest:
    """Hold `manifest` against the schema.

    Raises:
        ConversionError: It breaks the schema; the message names the first place.
    """
    fault = next(iter(sorted(_validator().iter_errors(manifest), key=str)), None)
    if fault is not None:
        place = "/".join(map(str, fault.absolute_path)) or "(root)"
        raise ConversionError(
            f"{origin}, {place}", f"not a format {FORMAT} manifest: {fault.message}"
        )
    return cast("types.Manifest", manifest)


def read(path: Path) -> types.Manifest:
    """Read and validate a manifest file."""
    return validate(json.loads(path.read_text(encoding="utf-8")), path.name)


def dumps(content: Any) -> bytes:
    """JSON with stable key order and a final newline: the same content gives the same bytes."""
    return (json.dumps(content, ensure_ascii=False, indent=1, allow_nan=False) + "\n").encode()


def spec(value: TensorSpec) -> types.TensorSpec:
    """A tensor's name, dtype and shape as the manifest writes it."""
    entry: types.TensorSpec = {
        "name": value.name,
        "dtype": cast("types.DType", value.dtype),
        "shape": list(value.shape),
    }
    if value.default is not None:
        entry["default"] = list(value.default)
    if value.description:
        entry["description"] = value.description
    if value.vocabulary is not None:
        entry["vocabulary"] = list(value.vocabulary)
    if value.source is not None:
        entry["from"] = value.source
    return entry


def signature(value: Signature) -> types.Signature:
    """Both sides of a signature as the manifest writes them."""
    return {
        "inputs": [spec(entry) for entry in value.inputs],
        "outputs": [spec(entry) for entry in value.outputs],
    }


def verdict(value: Verdict) -> types.Verdict:
    """A verdict with figures rounded to what is worth showing, so that they don't look exact."""
    return {
        "metric": value.metric,
        "value": round(value.value, 4),
        "tolerance": round(value.tolerance, 4),
        "passed": value.passed,
        "reason": value.reason,
        "maxAbsError": float(f"{value.max_abs_error:.4g}"),
        "snr": round(value.snr, 2),
    }


def generation(value: Generation) -> types.Generation:
    """How tokens are chosen."""
    return {
        "start": list(value.start),
        "end": list(value.end),
        "suppress": list(value.suppress),
        "suppressFirst": list(value.suppress_first),
        "longest": value.longest,
    }


def event(value: Event) -> types.Event:
    """An event of the build."""
    return {"level": value.level, "step": value.step, "message": value.message}
