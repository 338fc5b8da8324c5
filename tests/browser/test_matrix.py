"""Every model, variant and provider that each engine offers computes what the CPU computes."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from builder.verify import Browser
from tests.browser.site import MODELS, Arrays, Site

FROM_FP32 = {"fp32": 80.0, "fp16": 35.0, "int8": 20.0, "q4": 10.0, "q4f16": 10.0}
FROM_FP32 |= {"q8": 10.0, "uint8": 15.0}
"""Least signal-to-noise ratio in dB against the fp32 model on the CPU, for each output.

fp32 sums in another order: 118 dB seen. Half precision has 11 bits of mantissa, 66 dB for one
rounding; 41 dB seen after fifty layers. Eight bits of weights: 24 to 37 dB seen; four: 14 to 20.
Eight bits of weights and activations: 17 to 37.
"""

FROM_ITSELF = {"float32": 80.0, "float16": 35.0, "multiplied": 40.0, "images": 30.0}
"""Least ratio in dB against the same variant on the CPU, by element type of the arithmetic: what
the browser alone adds. The CPU computes fp16 graphs in fp32, so half precision differs there. Where
products are multiplied in 8 bits, the last bit of an activation decides which way it is rounded.
Where convolutions are computed in 8 bits, layer after layer, that grows: an input scaled by
1 + 1e-6 leaves EfficientNet-Lite0's scores 36 dB on one and the same CPU, where int8-wasm has 33 dB
against fp32 (38 dB seen in browsers). CenterFace in q8 agrees to 115 dB on references where no
level flips; 56 and 33 dB were seen on others."""

CONVOLVED = {
    "int8-wasm": ("efficientnet-lite0",),
    "q8": ("efficientnet-lite0", "centerface", "mixed"),
}
"""Models of whose convolutions some are computed in 8 bits, by variant."""

CELLS = [
    # engine, device, dtypes that it can run without a GPU in the machine
    ("chromium", "wasm", ("fp32", "fp16", "int8", "q4", "q8", "uint8")),
    ("chromium", "webgpu", ("fp32", "fp16", "int8", "q4")),
    ("firefox", "wasm", ("fp32", "fp16", "int8", "q4")),
    ("firefox", "webgpu", ("fp32", "fp16", "int8", "q4", "q4f16")),
    ("webkitgtk", "wasm", ("fp32", "fp16", "int8", "q4")),
]
"""Chromium's software adapter lacks `shader-f16`, so it computes in fp32 what Firefox computes in
half, from the same weights; WebKitGTK has no WebGPU."""

CASES = [
    pytest.param(engine, device, model, dtype, id=f"{engine}-{device}-{model}-{dtype}")
    for engine, device, dtypes in CELLS
    for model in MODELS
    for dtype in dtypes
]

# The page reads the stored inputs by itself: it uses no byte that the build didn't put there.
RUN = """
const [root, id, device, dtype, at] = args;
const { load } = await import(`${root}onnxsite.js`);
const model = await load(`${root}models/${id}/`, { device, dtype });
try {
  const { manifest } = model;
  const reference = manifest.references[at % manifest.references.length];
  const content = await (await fetch(root + reference.file.path)).arrayBuffer();
  const kinds = {
    float32: Float32Array, float64: Float64Array, int8: Int8Array, uint8: Uint8Array,
    int16: Int16Array, uint16: Uint16Array, int32: Int32Array, uint32: Uint32Array,
    int64: BigInt64Array, uint64: BigUint64Array, bool: Uint8Array,
  };
  const stored = new Map(
    [...reference.inputs, ...reference.stages.flatMap((s) => s.outputs)].map((e) => [e.name, {
      data: new kinds[e.dtype](content.slice(e.offset, e.offset + e.size)), dims: e.shape,
    }]));
  const inputs = (specs) => Object.fromEntries(
    specs.filter(({ name }) => stored.has(name)).map(({ name }) => [name, stored.get(name)]));
  const coded = ({ dtype, dims, data }) => {
    const bytes = new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
    let text = "";
    for (let i = 0; i < bytes.length; i += 32768) {
      text += String.fromCharCode(...bytes.subarray(i, i + 32768));
    }
    return { dtype, dims, base64: btoa(text) };
  };
  const outputs = (run) =>
    Object.fromEntries(Object.entries(run.outputs).map(([name, t]) => [name, coded(t)]));
  const middle = manifest.stages.find(({ kind }) => kind === "model");
  const alone = await model.run(inputs(middle.inputs), { stage: middle.name });
  const whole = await model.run(inputs(manifest.interface.inputs));
  const { events, ...info } = model.info;
  const agent = navigator.userAgent;
  return { agent, info, events, model: outputs(alone), whole: outputs(whole) };
} finally {
  await model.dispose();
}
"""


@pytest.mark.parametrize(("browser", "device", "model", "dtype"), CASES, indirect=["browser"])
def test_computes_what_the_cpu_computes(
    site: Site, browser: Browser, device: str, model: str, dtype: str
) -> None:
    manifest = site.manifest(model)
    variants = site.variants(model)
    if not any(variant["dtype"] == dtype for variant in variants.values()):
        # Left out by its gate; then the manifest says why.
        assert [entry["reason"] for entry in manifest["dropped"] if entry["dtype"] == dtype]
        return
    # Loading checks the first reference already; this is another one, if there is one.
    at = 1 % len(manifest["references"])
    browser.goto(f"{site.url}404.html")
    got = browser.evaluate(RUN, site.url, model, device, dtype, at)
    assert (got["info"]["device"], got["info"]["dtype"]) == (device, dtype), got["events"]
    assert [event for event in got["events"] if event["level"] == "warning"] == []

    stored = site.stored(manifest["references"][at])
    expected = site.on_the_cpu(model, "model", "fp32", stored)
    variant = variants[got["info"]["variant"]]
    assert variant["name"] == best(variants, dtype, device, halves="Firefox" in got["agent"])
    itself = site.on_the_cpu(model, "model", variant["name"], stored)
    kind = arithmetic(model, variant)
    actual = decoded(got["model"])
    assert actual.keys() == expected.keys()
    for name, values in actual.items():
        assert values.shape == expected[name].shape
        # The reference in the bundle is the one that is recomputed here.
        assert ratio(expected[name], stored[name]) >= FROM_FP32["fp32"], name
        assert ratio(expected[name], values) >= FROM_FP32[dtype], name
        assert ratio(itself[name], values) >= FROM_ITSELF[kind], name
    if dtype == "fp32":
        check_whole(site, model, stored, decoded(got["whole"]))


def arithmetic(model: str, variant: dict[str, Any]) -> str:
    """What a variant computes with: a key of `FROM_ITSELF`."""
    if model in CONVOLVED.get(variant["name"], ()):
        return "images"
    return "multiplied" if variant["name"] in ("int8-wasm", "q8", "uint8") else variant["compute"]


def best(variants: dict[str, Any], dtype: str, device: str, *, halves: bool) -> str:
    """The form of a dtype that a device should take: the most special one that it can run."""
    names = [f"{dtype}-half"] if halves and device == "webgpu" else []
    names += [f"{dtype}-{device}", dtype]
    return next(name for name in names if name in variants)


def check_whole(site: Site, model: str, stored: Arrays, whole: Arrays) -> None:
    """The stages around the model: run one after the other on the CPU, from the raw inputs."""
    manifest = site.manifest(model)
    values = {spec["name"]: default(spec) for spec in manifest["interface"]["inputs"]}
    values |= {name: stored[name] for name in values if name in stored}
    for entry in manifest["stages"]:
        values |= site.on_the_cpu(model, entry["kind"], "fp32", values)
    for spec in manifest["interface"]["outputs"]:
        expected, actual = values[spec["name"]], whole[spec["name"]]
        assert actual.shape == expected.shape
        np.testing.assert_allclose(actual, expected, rtol=1e-3, atol=1e-3)


def test_a_variant_that_the_adapter_cannot_run_is_not_tried(site: Site, chromium: Browser) -> None:
    assert "q4f16" in site.variants("encoder")
    chromium.goto(f"{site.url}404.html")
    got = chromium.evaluate(RUN, site.url, "encoder", "webgpu", "q4f16", 0)
    assert got["info"]["dtype"] != "q4f16"
    assert any("shader-f16" in event["message"] for event in got["events"])


def test_every_kind_of_form_is_there(site: Site) -> None:
    wanted = {"fp32", "fp16", "fp16-half", "int8", "int8-wasm", "int8-half", "q4", "q4f16"}
    wanted |= {"q8", "uint8"}
    assert set(site.variants("encoder")) == wanted


def test_what_never_meets_a_gpu_has_nothing_that_leaves_it(site: Site) -> None:
    alone = [v for v in site.variants("encoder").values() if "webgpu" not in v["devices"]]
    assert {v["name"] for v in alone} == {"int8-wasm", "q8", "uint8"}
    assert all(v["cpuOperators"] == [] for v in alone)


def test_forms_of_one_dtype_share_their_weights(site: Site) -> None:
    variants = site.variants("encoder")
    for base, form in (("fp16", "fp16-half"), ("int8", "int8-wasm"), ("q4", "q4f16")):
        shards = [
            {
                shard["sha256"]: shard["size"]
                for b in variants[n]["weights"]
                for shard in b["shards"]
            }
            for n in (base, form)
        ]
        shared = sum(size for digest, size in shards[0].items() if digest in shards[1])
        assert shared >= 0.9 * sum(shards[0].values()), (base, form)


def default(spec: Any) -> npt.NDArray[Any]:
    """An input's default, or nothing where it has none."""
    return np.asarray(spec.get("default", []), spec["dtype"]).reshape(
        [] if spec.get("default") and not spec["shape"] else [-1]
    )


def decoded(outputs: Any) -> Arrays:
    """Outputs as the page gives them: half precision comes widened to single."""
    kinds = {"bool": np.uint8, "float16": np.float32}
    return {
        name: np.frombuffer(
            base64.b64decode(value["base64"]), kinds.get(value["dtype"], value["dtype"])
        ).reshape(value["dims"])
        for name, value in outputs.items()
    }


def ratio(expected: npt.NDArray[Any], actual: npt.NDArray[Any]) -> float:
    """Signal-to-noise ratio in dB; whole numbers must be equal."""
    if expected.dtype.kind != "f":
        np.testing.assert_array_equal(actual, expected)
        return np.inf
    signal = np.asarray(expected, np.float64)
    noise = signal - np.asarray(actual, np.float64)
    power = float((noise**2).sum())
    assert np.isfinite(power)
    return np.inf if power == 0 else 10 * np.log10(float((signal**2).sum()) / power)
