"""Write the bundle of one model: its files into a store, and the manifest of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

import onnx_ir as ir

from builder.bundle import manifest as write
from builder.bundle.references import store_reference
from builder.bundle.store import Store
from builder.bundle.weights import Stored, store_variants
from builder.model import Array, Model, Signature, Verdict
from builder.recipe import ModelRecipe
from builder.webruntime.support import cpu_operators

if TYPE_CHECKING:
    from builder.bundle import _manifest as types

MODEL_STAGE = "model"


@dataclass(frozen=True)
class BuiltVariant:
    """A variant that passed its gate.

    Attributes:
        compute: Element type of the arithmetic: `float32` or `float16`.
        minimum: Signal-to-noise ratio in dB that a browser must reach on the probe.
        activations: Bytes of the largest activations that live at once, estimated.
    """

    ir: ir.Model
    compute: str
    verdict: Verdict
    minimum: float
    activations: int


@dataclass(frozen=True)
class BuiltReference:
    """Interface inputs and every stage's outputs on the CPU in fp32."""

    name: str
    inputs: Mapping[str, Array]
    stages: Sequence[tuple[str, Mapping[str, Array]]]


@dataclass(frozen=True)
class Built:
    """Everything that the manifest of one model is written from."""

    recipe: ModelRecipe
    model: Model
    interface: Signature
    pre: ir.Model | None
    post: ir.Model | None
    labels: Sequence[str]
    variants: Mapping[str, BuiltVariant]
    dropped: Sequence[tuple[str, str, Verdict | None]]
    references: Sequence[BuiltReference]
    samples: Sequence[Path]
    tools: Mapping[str, str]


def write_bundle(built: Built, store: Store) -> dict[str, object]:
    """Store a model's files; returns its manifest but for the web runtime, which the site adds."""
    recipe, model = built.recipe, built.model
    source = {
        "name": model.provenance.name,
        "url": recipe.homepage or model.provenance.url,
        "revision": recipe.revision or model.provenance.revision,
        "sha256": model.provenance.sha256,
    }
    stages = [
        *_helper_stage("pre", built.pre, built.interface, store),
        _model_stage(built, store),
        *_helper_stage("post", built.post, built.interface, store),
    ]
    return {
        "format": write.FORMAT,
        "id": recipe.id,
        "title": recipe.title,
        **({"description": recipe.description} if recipe.description else {}),
        "task": recipe.task,
        "licence": recipe.licence.model_dump(exclude_none=True),
        "source": {key: value for key, value in source.items() if value is not None},
        "root": "../../",
        "signature": write.signature(model.signature),
        "interface": write.signature(built.interface),
        "stages": stages,
        "dropped": [_dropped(*entry) for entry in built.dropped],
        "labels": list(built.labels),
        "samples": _samples(recipe, built.samples, store),
        "references": [
            store_reference(ref.name, ref.inputs, ref.stages, store) for ref in built.references
        ],
        "tools": dict(built.tools),
        "events": [write.event(event) for event in model.events],
    }


def _model_stage(built: Built, store: Store) -> types.Stage:
    stored = store_variants({name: v.ir for name, v in built.variants.items()}, store)
    return {
        "name": MODEL_STAGE,
        "kind": "model",
        "devices": ["webgpu", "wasm"],
        **_sides(built.model.signature),
        "variants": [
            _variant(name, variant, stored[name]) for name, variant in built.variants.items()
        ],
    }


def _variant(name: str, built: BuiltVariant, stored: Stored) -> types.Variant:
    weights = sum(blob["size"] for blob in stored.weights)
    return {
        "dtype": cast("types.VariantName", name),
        "compute": "float16" if built.compute == "float16" else "float32",
        "graph": stored.graph,
        "weights": stored.weights,
        "size": stored.size,
        "devices": ["webgpu", "wasm"],
        "requires": {
            "features": ["shader-f16"] if built.compute == "float16" else [],
            "maxBufferSize": stored.largest_weight,
            "maxStorageBufferBindingSize": stored.largest_weight,
        },
        # The bytes as they were downloaded, the session's own copy, and what a run needs.
        "peakMemory": 2 * weights + built.activations,
        "cpuOperators": cpu_operators(built.ir),
        "verdict": write.verdict(built.verdict),
        "selfTest": {"metric": "snr", "minimum": round(built.minimum, 2)},
        "verified": [],
    }


def _helper_stage(
    kind: str, graph: ir.Model | None, interface: Signature, store: Store
) -> list[types.Stage]:
    """The pre or post stage, if there is one: fp32 on wasm, never converted."""
    if graph is None:
        return []
    stored = store_variants({"fp32": graph}, store)["fp32"]
    exact = Verdict("snr", 200.0, 200.0, True, "Runs unconverted, in full precision.")
    variant = _variant("fp32", BuiltVariant(graph, "float32", exact, 40.0, 0), stored)
    variant["devices"] = ["wasm"]
    signature = Signature.of(graph.graph)
    described = {spec.name: spec for spec in (*interface.inputs, *interface.outputs)}
    signature = Signature(
        tuple(described.get(spec.name, spec) for spec in signature.inputs),
        tuple(described.get(spec.name, spec) for spec in signature.outputs),
    )
    return [
        {
            "name": kind,
            "kind": "pre" if kind == "pre" else "post",
            "devices": ["wasm"],
            **_sides(signature),
            "variants": [variant],
        }
    ]


def _sides(signature: Signature) -> types.Signature:
    return write.signature(signature)


def _dropped(dtype: str, reason: str, verdict: Verdict | None) -> types.Dropped:
    entry: types.Dropped = {"dtype": cast("types.VariantName", dtype), "reason": reason}
    if verdict is not None:
        entry["verdict"] = write.verdict(verdict)
    return entry


def _samples(recipe: ModelRecipe, paths: Sequence[Path], store: Store) -> list[types.Sample]:
    return [
        {
            "title": sample.title,
            "file": store.add(path.read_bytes(), path.suffix),
            "mime": sample.mime,
            "credit": sample.credit,
        }
        for sample, path in zip(recipe.samples, paths, strict=True)
    ]
