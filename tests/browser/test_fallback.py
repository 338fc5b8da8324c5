"""Where WebGPU is absent, refused or fails in the middle, the page goes on and says why."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from builder import pipeline, plan
from builder.verify import Browser, launch
from tests.browser import drive
from tests.browser.site import Site

API = """
const [root, id, options] = args;
const { load } = await import(`${root}onnxsite.js`);
globalThis.model = await load(`${root}models/${id}/`, options);
const { device, dtype, flavour, threads } = globalThis.model.info;
return { device, dtype, flavour, threads };
"""


def drop_a_picture(site: Site, browser: Browser) -> Any:
    """Give a PNG file to the page of file types; gives the page's state after the answer."""
    before = len(drive.texts(browser, "file-row"))
    drive.drop(browser, [("given", "", site.sample("magika", "PNG picture"))])
    rows = drive.result(browser, "file-row", before + 1)
    assert "png" in rows[0].split()
    return drive.ready(browser)


@pytest.mark.parametrize(
    ("engine", "reason"),
    [
        ("firefox", "this browser has no WebGPU"),
        ("chromium", "the browser found no usable GPU"),
    ],
    ids=["absent", "refused"],
)
def test_without_webgpu(site: Site, engine: str, reason: str) -> None:
    """Firefox switched off has no `navigator.gpu`; Chromium has one that finds no adapter."""
    with launch(engine, webgpu=False) as browser:
        browser.goto(f"{site.url}models/magika/")
        has = browser.evaluate("return 'gpu' in navigator")
        assert has == (engine == "chromium")
        now = drop_a_picture(site, browser)
        assert now["badge"]["device"] == "wasm"
        assert reason in now["fallback"]


def test_without_webgpu_the_small_runtime_is_loaded(site: Site) -> None:
    with launch("chromium", webgpu=False) as browser:
        browser.goto(f"{site.url}404.html")
        info = browser.evaluate(API, site.url, "mixed", {})
        assert (info["device"], info["flavour"]) == ("wasm", "wasm")


def engine_of(browser: Browser) -> Any:
    """Playwright's handle of the worker that holds the model: the last one started."""
    return browser.driver.workers[-1]


def test_a_gpu_that_is_lost_between_two_runs(site: Site, chromium: Browser) -> None:
    chromium.goto(f"{site.url}models/magika/?device=webgpu&dtype=fp32")
    now = drop_a_picture(site, chromium)
    assert (now["badge"]["device"], now["fallback"]) == ("webgpu", "")
    engine_of(chromium).evaluate("engine.device.destroy()")
    now = drop_a_picture(site, chromium)
    assert now["badge"]["device"] == "wasm"
    assert "failed in the middle" in now["fallback"]


def test_a_gpu_that_is_lost_during_a_run(site: Site, chromium: Browser) -> None:
    chromium.goto(f"{site.url}404.html")
    start = """
    const { model } = globalThis;
    const inputs = { x: { data: new Float32Array(8), dims: [1, 8] },
      ids: { data: [3], dims: [1] }, mask: { data: new Array(16).fill(1), dims: [1, 16] } };
    globalThis.pending = Promise.all([0, 1, 2, 3].map(() => model.run(inputs)));
    """
    finish = """
    const results = await globalThis.pending;
    return results.map(({ outputs, info }) => [info.device, Array.from(outputs.y.data)]);
    """
    info = chromium.evaluate(API, site.url, "mixed", {"device": "webgpu", "dtype": "fp32"})
    assert info["device"] == "webgpu"
    chromium.evaluate(start)
    right = chromium.evaluate(finish)
    engine_of(chromium).evaluate("engine.device.destroy()")
    chromium.evaluate(start)
    after = chromium.evaluate(finish)
    # Every call is answered, by the CPU, and never with zeros.
    assert [device for device, _ in after] == ["wasm"] * 4
    for (_, expected), (_, actual) in zip(right, after, strict=True):
        assert any(expected)
        assert actual == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("isolate", [True, False], ids=["isolated", "not isolated"])
def test_threads_need_isolation(site: Site, chromium: Browser, isolate: bool) -> None:
    from builder.server import create_app, running

    with running(create_app(site.folder, isolate=isolate)) as url:
        chromium.goto(f"{url}models/magika/?device=wasm")
        now = drive.ready(chromium)
        cores = chromium.evaluate("return navigator.hardwareConcurrency")
        expected = min(cores, 4) if isolate else 1
        assert int(now["badge"]["threads"]) == expected
        assert ("Cross-Origin-Embedder-Policy" in now["fallback"]) == (not isolate)


WITHOUT_THREADS = """
// The model's first worker makes workers of its own in another way; the next one is as always.
const { Worker: Real } = globalThis;
const module = (text) => URL.createObjectURL(new Blob([text], { type: "text/javascript" }));
let left = 1;
globalThis.Worker = class extends Real {
  constructor(url, options) {
    const other = module("self.Worker = class extends EventTarget {BODY};");
    super(left-- > 0 ? module(`import "${other}"; import "${url}";`) : url, options);
  }
};
"""

NEVER = "{ postMessage() {} terminate() {} }"

BLOCKED = """{ constructor() {
  super(); Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0); } }"""


@pytest.mark.parametrize("body", [NEVER, BLOCKED], ids=["never", "and the model's waits for them"])
def test_threads_that_do_not_start(site: Site, chromium: Browser, body: str) -> None:
    """As Firefox was seen to do. The page gives it a time, and then a fresh worker."""
    chromium.goto(f"{site.url}404.html")
    without = WITHOUT_THREADS.replace("{BODY}", " ".join(body.split()))
    got = chromium.evaluate(
        without + API.replace("return {", "return { events: model.info.events,"),
        site.url,
        "mixed",
        {"device": "wasm"},
    )
    assert (got["device"], got["threads"]) == ("wasm", 2)
    (event,) = [event for event in got["events"] if event["step"] == "retry"]
    assert "threads didn't start in 20 s" in event["message"]


def test_a_gpu_that_is_taken_while_the_page_is_hidden(site: Site, chromium: Browser) -> None:
    """It is opened again at the next run, on the GPU, and computes what it did."""
    run = """
    const inputs = { x: { data: new Float32Array(8).fill(1), dims: [1, 8] },
      ids: { data: [3], dims: [1] }, mask: { data: new Array(16).fill(1), dims: [1, 16] } };
    const { outputs, info } = await globalThis.model.run(inputs);
    return [info.device, Array.from(outputs.y.data), info.events.map(({ step }) => step)];
    """
    chromium.goto(f"{site.url}404.html")
    chromium.evaluate(API, site.url, "mixed", {"device": "webgpu", "dtype": "fp32"})
    device, right, _ = chromium.evaluate(run)
    assert device == "webgpu"
    hide = "Object.defineProperty(document, 'visibilityState', { get: () => args[0] });"
    chromium.evaluate(hide.replace("get:", "configurable: true, get:"), "hidden")
    engine_of(chromium).evaluate("engine.device.destroy()")
    device, again, steps = chromium.evaluate(run)
    assert (device, steps) == ("webgpu", ["retry"])
    assert any(right)
    assert again == pytest.approx(right, abs=1e-6)


def test_a_worker_whose_memory_runs_out(site: Site, chromium: Browser) -> None:
    """The runtime throws bare numbers then; the next worker answers, never with zeros."""
    run = """
    const inputs = { x: { data: new Float32Array(8).fill(1), dims: [1, 8] },
      ids: { data: [3], dims: [1] }, mask: { data: new Array(16).fill(1), dims: [1, 16] } };
    const { outputs, info } = await globalThis.model.run(inputs);
    return [info.device, Array.from(outputs.y.data), info.events.map(({ message }) => message)];
    """
    chromium.goto(f"{site.url}404.html")
    # One thread: the last worker is the engine then, and not a thread of its own.
    options = {"device": "wasm", "dtype": "fp32", "threads": 1}
    chromium.evaluate(API, site.url, "mixed", options)
    _, right, _ = chromium.evaluate(run)
    engine_of(chromium).evaluate("void (engine.run = () => { throw 9437184; })")
    device, after, said = chromium.evaluate(run)
    assert any("lack of memory" in message for message in said)
    assert device == "wasm"
    assert any(right)
    assert after == pytest.approx(right, abs=0.05)


@pytest.mark.parametrize("browser", ["chromium", "firefox"], indirect=True)
@pytest.mark.parametrize("when", ["loading", "idle"])
def test_a_worker_that_the_browser_ends(site: Site, browser: Browser, when: str) -> None:
    """It says nothing, and no event comes: the call must be answered all the same."""
    # The first worker ends itself when it is told to, without a word, as if the browser did.
    mortal = """
    const { Worker: Real } = globalThis;
    const module = (text) => URL.createObjectURL(new Blob([text], { type: "text/javascript" }));
    const ear = module(`new BroadcastChannel("end").onmessage = () => self.close();`);
    globalThis.end = () => new BroadcastChannel("end").postMessage("");
    let left = 1;
    globalThis.Worker = class extends Real {
      constructor(url, options) {
        super(left-- > 0 ? module(`import "${ear}"; import "${url}";`) : url, options);
      }
    };
    """
    run = """
    const inputs = { x: { data: new Float32Array(8).fill(1), dims: [1, 8] },
      ids: { data: [3], dims: [1] }, mask: { data: new Array(16).fill(1), dims: [1, 16] } };
    const { outputs, info } = await globalThis.model.run(inputs);
    return [Array.from(outputs.y.data), info.events.map(({ message }) => message)];
    """
    during = API.replace("options)", "{ ...options, onProgress: globalThis.end })")
    browser.goto(f"{site.url}404.html")
    options = {"device": "wasm", "dtype": "fp32", "threads": 1}
    browser.evaluate(mortal + (during if when == "loading" else API), site.url, "mixed", options)
    if when == "idle":
        right, said = browser.evaluate(run)
        assert not any("ended the worker" in message for message in said)
        browser.evaluate("globalThis.end(); await new Promise((go) => setTimeout(go, 500));")
    else:
        x, ids = np.ones((1, 8), np.float32), np.array([3])
        inputs = {"x": x, "ids": ids, "mask": np.ones((1, 16), bool)}
        right = site.on_the_cpu("mixed", "model", "fp32", inputs)["y"].ravel()
    after, said = browser.evaluate(run)
    assert after == pytest.approx(right, abs=1e-5)
    assert len([message for message in said if "ended the worker" in message]) == 1


@pytest.mark.parametrize("rows", [16_380, 20_000], ids=["nearly 4 GiB", "more"])
def test_a_call_that_no_memory_is_enough_for(
    chromium: Browser, tmp_path_factory: pytest.TempPathFactory, rows: int
) -> None:
    """Nor a fresh worker's. The next call, with less, is answered."""
    from builder.server import create_app, running

    folder = tmp_path_factory.mktemp("wide")
    weights = np.linspace(-1, 1, 2**16, dtype=np.float32)[None]
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["x", "w"], ["wide"]),
            helper.make_node("ReduceMax", ["wide"], ["y"], axes=[1], keepdims=0),
        ],
        "wide",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", 1])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["rows"])],
        [numpy_helper.from_array(weights, "w")],
    )
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=8), folder / "wide.onnx")
    flags = plan.Flags(dtypes=["fp32"])
    pipeline.run(plan.make([str(folder / "wide.onnx")], folder / "site", flags=flags))
    run = """
    const { model } = globalThis;
    const rows = (n) => ({ x: { data: new Float32Array(n).fill(2), dims: [n, 1] } });
    const failed = await model.run(rows(args[0])).catch(({ code }) => code);
    const { outputs } = await model.run(rows(3));
    return [failed, Array.from(outputs.y.data)];
    """
    with running(create_app(folder / "site")) as url:
        chromium.goto(f"{url}404.html")
        chromium.evaluate(API, url, "wide", {"device": "wasm"})
        # A row is 2**16 floats.
        assert chromium.evaluate(run, rows) == ["MemoryError", [2, 2, 2]]


def test_wasm_reads_the_optimised_graph_from_the_same_weights(site: Site) -> None:
    body = """
    const [root, id, device] = args;
    const { load } = await import(`${root}onnxsite.js`);
    const model = await load(`${root}models/${id}/`, { device, dtype: "fp32" });
    const { reasons } = model.info;
    await model.dispose();
    return reasons;
    """
    variant = site.variants("efficientnet-lite0")["fp32"]
    # Where a page was open before, the service worker asks for the files, which isn't reported.
    with launch("chromium") as browser:
        browser.goto(f"{site.url}404.html")
        seen: list[str] = []
        browser.driver.on("request", lambda request: seen.append(request.url))
        for device, read, other in (
            ("wasm", variant["optimised"]["graph"], variant["graph"]),
            ("webgpu", variant["graph"], variant["optimised"]["graph"]),
        ):
            seen.clear()
            reasons = browser.evaluate(body, site.url, "efficientnet-lite0", device)
            assert "was asked for" in reasons["device"]
            assert any(url.endswith(read["path"]) for url in seen)
            assert not any(url.endswith(other["path"]) for url in seen)
    # The same shards: nothing is downloaded twice.
    assert variant["optimised"]["weights"] == variant["weights"]
    assert variant["optimised"]["level"] == "disabled"
