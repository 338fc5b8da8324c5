"""Write the bundle of one model: its files into a store, and the manifest of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import onnx_ir as ir

from builder.bundle import manifest as write
from builder.bundle import thumbnails
from builder.bundle.references import store_reference
from builder.bundle.store import Store
from builder.bundle.weights import Stored, store_variants
from builder.generation import Generation
from builder.model import Event, Model, Signature, Verdict
from builder.precision import FORMS
from builder.precision.gate import Step
from builder.recipe import ModelRecipe
from builder.references import BuiltReference
from builder.tasks.run import join
from builder.variants import BuiltVariant, Dropped, Variants
from builder.webruntime.support import cpu_operators

if TYPE_CHECKING:
    from builder.bundle import _manifest as types

HELPER = replace(FORMS[0], devices=("wasm",))
"""Stages around the model run unconverted, on WASM."""


@dataclass(frozen=True)
class Built:
    """Everything that the manifest of one model is written from."""

    recipe: ModelRecipe
    models: Mapping[str, Model]
    generation: Generation | None
    interface: Signature
    pre: ir.Model | None
    post: ir.Model | None
    labels: Sequence[str]
    variants: Mapping[str, Variants]
    references: Sequence[BuiltReference]
    samples: Sequence[Path]
    tools: Mapping[str, str]


def write_bundle(built: Built, store: Store) -> dict[str, object]:
    """Store a model's files; returns its manifest but for the web runtime, which the site adds."""
    recipe, models = built.recipe, list(built.models.values())
    origin = models[0].provenance
    source = {
        "name": origin.name,
        "url": recipe.homepage or origin.url,
        "revision": recipe.revision or origin.revision,
        "sha256": origin.sha256,
    }
    stages = [
        *_helper_stage("pre", built.pre, built.interface, store),
        *(_model_stage(built, part, store) for part in built.models),
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
        "signature": write.signature(join([model.signature for model in models])),
        "interface": write.signature(built.interface),
        "stages": stages,
        "dropped": [_dropped(entry) for entry in _every_dropped(built)],
        "labels": list(built.labels),
        "samples": _samples(recipe, built.samples, store),
        "references": [
            store_reference(ref.name, ref.inputs, ref.stages, store) for ref in built.references
        ],
        "tools": dict(built.tools),
        "events": [write.event(event) for event in _events(built)],
        **({} if built.generation is None else {"generation": write.generation(built.generation)}),
    }


def _every_dropped(built: Built) -> Iterator[Dropped]:
    """Each dtype once, with the reason of the first part that can't have it."""
    seen: set[str] = set()
    for part, found in built.variants.items():
        for entry in found.dropped:
            if entry.dtype not in seen:
                seen.add(entry.dtype)
                yield replace(entry, reason=_of_part(built, part, entry.reason))


def _events(built: Built) -> Iterator[Event]:
    for part, model in built.models.items():
        for event in model.events:
            yield replace(event, message=_of_part(built, part, event.message))


def _of_part(built: Built, part: str, message: str) -> str:
    return message if len(built.models) == 1 else f"{part}: {message}"


def _model_stage(built: Built, part: str, store: Store) -> types.Stage:
    shipped = built.variants[part].shipped
    graphs = {variant.form.name: variant.ir for variant in shipped}
    graphs |= {_fast(v.form.name): v.optimised.ir for v in shipped if v.optimised}
    stored = store_variants(graphs, store)
    return {
        "name": part,
        "kind": "model",
        "devices": ["webgpu", "wasm"],
        **_sides(built.models[part].signature),
        "variants": [
            _variant(variant, stored[variant.form.name], stored.get(_fast(variant.form.name)))
            for variant in shipped
        ],
    }


def _fast(name: str) -> str:
    """What a variant's optimised graph is called among the graphs that share weights."""
    return f"{name}, optimised"


def _variant(built: BuiltVariant, stored: Stored, fast: Stored | None = None) -> types.Variant:
    form = built.form
    weights = sum(blob["size"] for blob in stored.weights)
    entry: types.Variant = {
        "name": form.name,
        "dtype": form.dtype,
        "compute": form.compute,
        "graph": stored.graph,
        "weights": stored.weights,
        "size": stored.size,
        "devices": list(form.devices),
        "requires": {
            "features": ["shader-f16"] if form.compute == "float16" else [],
            "maxBufferSize": stored.largest_weight,
            "maxStorageBufferBindingSize": stored.largest_weight,
        },
        # The bytes as they were downloaded, the session's own copy, and what a run needs.
        "peakMemory": 2 * weights + built.activations,
        # What never meets a GPU has nothing that leaves it.
        "cpuOperators": cpu_operators(built.ir) if "webgpu" in form.devices else [],
        "verdict": write.verdict(built.verdict),
        "selfTest": {"metric": "snr", "minimum": round(built.minimum, 2)},
        "verified": [],
    }
    if fast is not None and built.optimised is not None:
        level = built.optimised.level
        entry["optimised"] = {"graph": fast.graph, "weights": fast.weights, "level": level}
    return entry


def _helper_stage(
    kind: str, graph: ir.Model | None, interface: Signature, store: Store
) -> list[types.Stage]:
    """The pre or post stage, if there is one: fp32 on wasm, never converted."""
    if graph is None:
        return []
    stored = store_variants({"fp32": graph}, store)["fp32"]
    exact = Verdict("snr", 200.0, 200.0, True, "Runs unconverted, in full precision.")
    variant = _variant(BuiltVariant(HELPER, graph, exact, 40.0, 0), stored)
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


def _dropped(dropped: Dropped) -> types.Dropped:
    entry: types.Dropped = {"dtype": dropped.dtype, "reason": dropped.reason}
    if dropped.verdict is not None:
        entry["verdict"] = write.verdict(dropped.verdict)
    return entry


def report(made: Mapping[str, Variants]) -> dict[str, object]:
    """The content of `report.json`: what was tried for every form of every part, why nodes stay in
    fp32, and what became of the passes that were asked for.
    """
    parts = [_report(part, variants) for part, variants in made.items()]
    return {key: [entry for part in parts for entry in part[key]] for key in ("variants", "passes")}


def _report(part: str, variants: Variants) -> dict[str, list[dict[str, object]]]:
    return {
        "variants": [
            {
                "part": part,
                "name": outcome.form.name,
                "shipped": any(v.form is outcome.form for v in variants.shipped),
                "reason": outcome.reason,
                **({} if outcome.wire is None else {"size": outcome.size, "wire": outcome.wire}),
                "steps": [_step(step) for step in outcome.steps],
                "kept": [
                    {
                        "node": kept.name,
                        "operator": kept.op_type,
                        "reason": kept.reason,
                        "measured": kept.detail,
                    }
                    for kept in outcome.kept
                ],
            }
            for outcome in variants.outcomes
        ],
        "passes": [
            {
                "part": part,
                "pass": passed.name,
                "asked": passed.asked,
                "dtype": dtype,
                "fits": passed.fits,
                "kept": passed.kept,
                "reason": passed.reason,
                "layers": passed.layers[0],
                "large": passed.layers[1],
                "before": _sizes(*passed.before),
                "after": _sizes(*passed.after),
                "steps": [_step(step) for step in passed.steps],
            }
            for dtype, found in variants.passed.items()
            for passed in found
        ],
    }


def _step(step: Step) -> dict[str, object]:
    return {
        "tried": step.tried,
        "size": step.size,
        **({} if step.wire is None else {"wire": step.wire}),
        "snr": round(step.verdict.snr, 2),
        step.verdict.metric: round(step.verdict.value, 6),
        "passed": step.verdict.passed,
    }


def _sizes(raw: int, wire: int) -> dict[str, int]:
    """Bytes of graph and weights, as they are and compressed (by estimate)."""
    return {"size": raw, "wire": wire}


def _samples(recipe: ModelRecipe, paths: Sequence[Path], store: Store) -> list[types.Sample]:
    made: list[types.Sample] = []
    for sample, path in zip(recipe.samples, paths, strict=True):
        entry: types.Sample = {
            "title": sample.title,
            "file": store.add(path.read_bytes(), path.suffix),
            "mime": sample.mime,
            "credit": sample.credit,
        }
        if sample.mime.startswith("image/"):
            entry["thumbnail"] = store.add(thumbnails.thumbnail(path), thumbnails.SUFFIX)
        made.append(entry)
    return made
