"""Ask the vendored onnxruntime-web where each operator runs, and write the table of the builder.

    .venv/bin/python tools/measure_operators.py

One-node models of every operator, version and element type are made from the test cases of the
package onnx (and by hand where it has none). Chromium creates a session of each, once per provider;
onnxruntime's log tells where the node went. No kernel is run, so a software adapter will do. Takes
about ten minutes. Run it again whenever the pinned onnxruntime-web changes.
"""

from __future__ import annotations

import base64
import copy
import functools
import json
import re
import sys
import threading
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.backend.test.case.node import collect_testcases
from playwright.sync_api import Browser, Page, sync_playwright
from playwright.sync_api import Error as PlaywrightError

ROOT = Path(__file__).resolve().parent.parent
RUNTIME = ROOT / "web" / "node_modules" / "onnxruntime-web"
TABLE = ROOT / "builder" / "webruntime" / "operators.txt"
CHROMIUM = "/usr/bin/chromium"
FLAGS = ["--no-sandbox", "--enable-unsafe-webgpu", "--use-webgpu-adapter=swiftshader"]
OPSETS = range(7, 27)
EVERY_TYPE_FROM = 17  # older opsets are brought up to this one by the builder
TYPES = (
    "float16 double int8 uint8 int16 uint16 int32 uint32 int64 uint64 bool string bfloat16".split()
)
CASES_OF_A_TYPE = 2
PAGES_LIVE_FOR = 200  # sessions; wasm memory never shrinks
DATA_INPUT = {"Where": 1}
PAIRS = {"Cast", "CastLike"}
HEADER = """\
# Where onnxruntime-web {version} runs each operator, as it answered tools/measure_operators.py.
# Operator, version: types of its data that have a WebGPU kernel | only a WASM kernel | no kernel.
"""
PAGE = """<!doctype html><script>
const lines = [];
for (const name of ["log", "info", "debug", "warn", "error"])
  console[name] = (...parts) => lines.push(parts.join(" "));
</script><script type="module">
import * as ort from "/dist/ort.webgpu.min.mjs";
ort.env.wasm.numThreads = 1;
ort.env.logLevel = "verbose";
window.place = async (model, provider) => {
  lines.length = 0;
  const bytes = Uint8Array.from(atob(model), (c) => c.charCodeAt(0));
  const options = { executionProviders: [provider], logSeverityLevel: 0, logVerbosityLevel: 1 };
  try {
    const session = await ort.InferenceSession.create(bytes, options);
    await session.release();
  } catch (error) {
    return null;
  }
  return lines.filter((line) => line.includes("VerifyEachNodeIsAssignedToAnEp"));
};
</script>"""


@dataclass(frozen=True)
class Case:
    """A model of one node.

    Attributes:
        operator: With its domain, unless that is the standard one.
        since: The version of the operator's definition.
        types: Numbers of the element types that the placement holds for.
    """

    operator: str
    since: int
    types: tuple[int, ...]
    model: onnx.ModelProto


def since_versions() -> dict[tuple[str, str], list[int]]:
    """Every version of every operator, by domain and name."""
    found = defaultdict(list)
    for schema in onnx.defs.get_all_schemas_with_history():
        found[schema.domain, schema.name].append(schema.since_version)
    return {key: sorted(versions) for key, versions in found.items()}


SINCE = since_versions()


def case_of(model: onnx.ModelProto) -> Case:
    """Describe a model of one node."""
    node = model.graph.node[0]
    opset = next(o.version for o in model.opset_import if o.domain == node.domain)
    since = max((v for v in SINCE.get((node.domain, node.op_type), [1]) if v <= opset), default=1)
    types = {value.name: value.type.tensor_type.elem_type for value in model.graph.input}
    types |= {tensor.name: tensor.data_type for tensor in model.graph.initializer}
    index = DATA_INPUT.get(node.op_type, 0)
    data = [types.get(node.input[index], 0)] if len(node.input) > index else []
    if node.op_type in PAIRS:
        data.append(model.graph.output[0].type.tensor_type.elem_type)
    name = f"{node.domain}.{node.op_type}" if node.domain else node.op_type
    return Case(name, since, tuple(filter(None, data)), model)


def published() -> Iterator[Case]:
    """The cases of onnx, at every version of their operator and with every type of its data."""
    count: Counter[tuple[str, int, tuple[int, ...]]] = Counter()
    for test in collect_testcases(None):
        if test.model is None or len(test.model.graph.node) != 1:
            continue
        for case in variants(test.model):
            key = (case.operator, case.since, case.types)
            if count[key] < CASES_OF_A_TYPE:
                count[key] += 1
                yield case


def variants(model: onnx.ModelProto) -> Iterator[Case]:
    """The model in every version of its operator, with float32 and with every other type."""
    node = model.graph.node[0]
    versions = SINCE[node.domain, node.op_type]
    for since in versions:
        newer = min((v for v in versions if v > since), default=99)
        # 24: layout transposes, which onnxruntime adds, have no WebGPU kernel in later opsets.
        opset = min(newer - 1, max(24, since)) if not node.domain else newer - 1
        if not node.domain and (opset < OPSETS[0] or since > OPSETS[-1]):
            continue
        for kind in (None, *TYPES):
            if kind and not node.domain and opset < EVERY_TYPE_FROM:
                continue
            changed = retyped(model, node.domain, opset, kind)
            if changed is not None:
                yield case_of(changed)


def retyped(
    model: onnx.ModelProto, domain: str, opset: int, kind: str | None
) -> onnx.ModelProto | None:
    """The model in another opset, its float32 values of another type; None if that's invalid."""
    changed = copy.deepcopy(model)
    changed.ir_version = 10
    for entry in changed.opset_import:
        if entry.domain == domain:
            entry.version = min(opset, onnx.defs.onnx_opset_version())
        elif not entry.domain:
            entry.version = min(entry.version, 21)
    values = [
        value
        for value in (*changed.graph.input, *changed.graph.output)
        if value.type.tensor_type.elem_type == TensorProto.FLOAT
    ]
    if kind and not values:
        return None
    for value in values if kind else ():
        value.type.tensor_type.elem_type = TensorProto.DataType.Value((kind or "float").upper())
    try:
        onnx.checker.check_model(changed)
        onnx.shape_inference.infer_shapes(changed, check_type=True, strict_mode=True)
    except Exception:
        return None
    return changed


def single(
    kind: int,
    name: str,
    opset: int,
    source: Sequence[int],
    target: Sequence[int],
    *weights: npt.ArrayLike,
    **attributes: Any,
) -> Case:
    """One input, one output, and weights; a name with a dot is onnxruntime's own operator."""
    domain, _, operator = name.rpartition(".")
    initializers = [
        numpy_helper.from_array(np.asarray(weight), f"w{index}")
        for index, weight in enumerate(weights)
    ]
    node = helper.make_node(
        operator, ["x", *(w.name for w in initializers)], ["y"], domain=domain, **attributes
    )
    graph = helper.make_graph(
        [node],
        "single",
        [helper.make_tensor_value_info("x", kind, source)],
        [helper.make_tensor_value_info("y", kind, target)],
        initializers,
    )
    opsets = [helper.make_opsetid("", opset)]
    opsets += [helper.make_opsetid(domain, 1)] if domain else []
    return case_of(helper.make_model(graph, opset_imports=opsets, ir_version=8))


def by_hand() -> Iterator[Case]:
    """What onnx has no case for: older forms of operators, and onnxruntime's own."""
    for kind in (TensorProto.FLOAT, TensorProto.FLOAT16):
        yield from older(kind)
        yield from contributed(kind)


def older(kind: int) -> Iterator[Case]:
    """Forms of operators that later opsets replaced, and types that onnx has no case for."""
    one = functools.partial(single, kind)
    dtype = helper.tensor_dtype_to_np_dtype(kind)
    small, large, twice = (1, 1, 2, 2), (1, 1, 4, 4), np.array([1, 1, 2, 2], np.float32)
    for _, name in SINCE:
        if name.startswith("Reduce"):
            for opset in (10, 12, 17):
                if name != "ReduceSum" or opset < 13:
                    yield one(name, opset, (2, 3, 4), (2, 3, 1), axes=[2])
    for opset in (10, 12):
        yield one("Squeeze", opset, (1, 3), (3,), axes=[0])
        yield one("Unsqueeze", opset, (3,), (1, 3), axes=[0])
    for opset in (11, 13, 18, 19):
        yield one("Resize", opset, small, large, np.zeros(0, np.float32), twice)
    for opset in (11, 17):
        yield one("CumSum", opset, (3, 3), (3, 3), np.int64(0))
    for opset in (8, 13, 14, 17):
        yield one("BatchNormalization", opset, large, large, *[np.ones(1, dtype)] * 4)
    yield one("Resize", 10, small, large, twice)
    yield one("Upsample", 9, small, large, twice)
    yield one("Upsample", 8, small, large, scales=twice.tolist())
    yield one("Pad", 10, (1, 3), (1, 5), pads=[0, 1, 0, 1])
    yield one("Clip", 10, (1, 3), (1, 3), min=0.0, max=6.0)
    yield one("Slice", 9, (1, 3), (1, 2), starts=[1], ends=[3], axes=[1])
    yield one("Trilu", 17, (3, 3), (3, 3))
    yield one("Einsum", 17, (3, 3), (3, 3), np.ones((3, 3), dtype), equation="ij,jk->ik")
    yield one("LayerNormalization", 17, (2, 8), (2, 8), np.ones(8, dtype), np.ones(8, dtype))
    yield one("RandomNormalLike", 17, (3, 3), (3, 3))
    yield one("RandomUniformLike", 17, (3, 3), (3, 3))


def contributed(kind: int) -> Iterator[Case]:
    """Operators of onnxruntime itself."""
    dtype = helper.tensor_dtype_to_np_dtype(kind)
    tokens, image = (1, 4, 32), (1, 2, 4, 4)

    def one(name: str, shape: Sequence[int], *weights: npt.ArrayLike, **attributes: Any) -> Case:
        arrays = [np.ones(w, dtype) if isinstance(w, tuple) else w for w in weights]
        return single(kind, f"com.microsoft.{name}", 17, shape, shape, *arrays, **attributes)

    for name in ("Gelu", "QuickGelu", "FastGelu"):
        yield one(name, tokens)
    for name in ("SkipLayerNormalization", "SkipSimplifiedLayerNormalization"):
        yield one(name, tokens, tokens, (32,))
    yield one("BiasGelu", tokens, (32,))
    yield one("FusedConv", image, (2, 2, 1, 1), activation="Relu")
    yield one("MultiHeadAttention", tokens, tokens, tokens, num_heads=2)
    yield one("Attention", tokens, (32, 96), (96,), num_heads=2)
    yield one("RotaryEmbedding", tokens, np.zeros(1, np.int64), (8, 16), (8, 16))
    for bits in (4, 8):
        packed = np.zeros((32, 1, 4 * bits), np.uint8)
        yield one("MatMulNBits", tokens, packed, (32,), K=32, N=32, bits=bits, block_size=32)


class Handler(SimpleHTTPRequestHandler):
    """Serves the page and the runtime."""

    extensions_map = {".mjs": "text/javascript", ".wasm": "application/wasm"}  # noqa: RUF012

    def do_GET(self) -> None:
        """The page, or a file of the runtime."""
        if self.path.startswith("/dist/"):
            super().do_GET()
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(PAGE.encode())

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


class Placer:
    """Asks a browser where nodes go."""

    def __init__(self, browser: Browser, url: str) -> None:
        self.browser, self.url = browser, url
        self.page: Page = self._fresh()
        self.asked = 0

    def __call__(self, case: Case, provider: str) -> list[str] | None:
        """Lines of the log, or None where no session can be created."""
        self.asked += 1
        if self.asked % PAGES_LIVE_FOR == 0:
            self._renew()
        model = base64.b64encode(case.model.SerializeToString()).decode()
        try:
            lines: list[str] | None = self.page.evaluate(
                "([m, p]) => place(m, p)", [model, provider]
            )
        except PlaywrightError:  # the page died with its wasm
            self._renew()
            return None
        return lines

    def _renew(self) -> None:
        self.page.close()
        self.page = self._fresh()

    def _fresh(self) -> Page:
        page = self.browser.new_page()
        page.goto(self.url)
        page.wait_for_function("window.place")
        return page


def on_gpu(case: Case, lines: Sequence[str]) -> bool:
    """Whether the node itself went to the GPU; one that became several, whether all did."""
    name = case.operator.rpartition(".")[2]
    provider = ""
    placed: dict[str, set[str]] = defaultdict(set)
    for line in lines:
        text = line.partition("]")[2]
        if found := re.search(r"placed on \[(\w+)ExecutionProvider\]", text):
            provider = found[1]
            if "All nodes" in text:
                return provider == "WebGpu"
        elif found := re.match(r"\s+(\w+) \(", text):
            placed[provider].add(found[1])
    return name in placed["WebGpu"] or not placed["CPU"]


def measure(cases: Sequence[Case]) -> dict[tuple[str, int], tuple[set[str], set[str], set[str]]]:
    """Element types with a WebGPU kernel, a WASM kernel only, and none, by operator and version."""
    table: dict[tuple[str, int], tuple[set[str], set[str], set[str]]] = {}
    handler = functools.partial(Handler, directory=RUNTIME)
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        place = Placer(browser, f"http://127.0.0.1:{server.server_port}/")
        for index, case in enumerate(cases):
            row = table.setdefault((case.operator, case.since), (set(), set(), set()))
            gpu, wasm = place(case, "webgpu"), place(case, "wasm")
            best = 0 if gpu is not None and on_gpu(case, gpu) else 1 if wasm is not None else 2
            row[best].update(TensorProto.DataType.Name(kind).lower() for kind in case.types)
            if not case.types:
                row[best].add("any")
            if index % 100 == 0:
                sys.stderr.write(f"{index} of {len(cases)}\n")
        browser.close()
    return table


def main() -> None:
    """Measure everything and write the table."""
    cases = [*published(), *by_hand()]
    table = measure(cases)
    version = json.loads((RUNTIME / "package.json").read_text(encoding="utf-8"))["version"]
    lines = [HEADER.format(version=version)]
    for (operator, since), (gpu, wasm, refused) in sorted(table.items()):
        columns = (gpu, wasm - gpu, refused - gpu - wasm)
        lines.append(f"{operator} {since}: {' | '.join(' '.join(sorted(c)) for c in columns)}\n")
    TABLE.write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
