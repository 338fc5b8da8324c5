"""An encoder and a decoder with a cache write in browsers what transformers writes in PyTorch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from builder import pipeline, plan
from builder.server import create_app, running
from builder.verify import Browser
from tests.browser import drive
from tests.sources.test_generative import PAIRS, WRITTEN, lively

# Greedy decoding by the manifest alone: every input that is `from` an output gets the last one.
WRITE = """
const [root, given, device, limit] = args;
const { load } = await import(`${root}onnxsite.js`);
const model = await load(`${root}models/translator/`, { device });
try {
  const { generation, stages } = model.manifest;
  const { inputs: takes } = stages.find(({ name }) => name === "decoder");
  const { name: tokens } = takes.find(({ from }) => !from);
  const read = { data: given, dims: [1, given.length] };
  let state = (await model.run({ input_ids: read }, { stage: "encoder" })).outputs;
  let unseen = generation.start;
  const written = [];
  while (written.length < limit) {
    const inputs = { [tokens]: { data: unseen, dims: [1, unseen.length] } };
    for (const { name, from } of takes) if (state[from]) inputs[name] = state[from];
    const { logits, ...present } = (await model.run(inputs, { stage: "decoder" })).outputs;
    state = { ...state, ...present };
    const last = logits.data.subarray(-logits.dims.at(-1));
    const token = last.reduce((best, score, at) => (score > last[best] ? at : best), 0);
    if (generation.end.includes(token)) break;
    written.push(token);
    unseen = [token];
  }
  return { written, device: model.info.device, test: await model.selfTest() };
} finally {
  await model.dispose();
}
"""


@dataclass(frozen=True)
class Translator:
    """A site's address, tokens to read, and what transformers writes then."""

    url: str
    read: list[int]
    want: list[int]


@pytest.fixture(scope="module")
def translator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Translator]:
    folder: Path = tmp_path_factory.mktemp("translator")
    model, feeds, want = lively(PAIRS["T5"])
    model.save_pretrained(folder / "translator")
    flags = plan.Flags(dtypes=["fp32", "fp16"])
    pipeline.run(plan.make([str(folder / "translator")], folder / "site", flags=flags))
    with running(create_app(folder / "site")) as url:
        yield Translator(url, feeds["input_ids"][0].tolist(), want)


@pytest.mark.parametrize(
    ("browser", "device"),
    [
        ("chromium", "wasm"),
        ("chromium", "webgpu"),
        ("firefox", "wasm"),
        ("firefox", "webgpu"),
        ("webkitgtk", "wasm"),
    ],
    indirect=["browser"],
)
def test_they_write(browser: Browser, device: str, translator: Translator) -> None:
    browser.goto(f"{translator.url}404.html")
    said = browser.evaluate(WRITE, translator.url, translator.read, device, WRITTEN)
    assert said["device"] == device
    assert said["written"] == translator.want
    assert {result["output"] for result in said["test"]["results"]} >= {
        "logits",
        "present.0.encoder.key",
        "present.1.decoder.value",
    }
    assert said["test"]["passed"]


# The lines that the page gives for other pages, run as they stand.
PASTE = """
const [data, limit] = args;
const [batch, source, tokens] = [1, data.length, []];
const lines = document.querySelector("#code").textContent
  .replace(/import { load } from ("[^"]*")/, "const { load } = await import($1)")
  .replace("< 100", `< ${limit}`);
const AsyncFunction = (async () => {}).constructor;
return new AsyncFunction("data", "batch", "source", "tokens", `${lines}; return written;`)(
  data, batch, source, tokens);
"""


def test_the_page_asks_for_no_cache(chromium: Browser, translator: Translator) -> None:
    chromium.goto(f"{translator.url}models/translator/?device=wasm&dtype=fp32")
    drive.ready(chromium)
    legends = "return [...document.querySelectorAll('fieldset.tensor legend')]"
    asked = chromium.evaluate(f"{legends}.map((legend) => legend.textContent)")
    assert asked == ["input_ids", "decoder_input_ids"]
    drive.click(chromium, "use-reference")
    (only,) = drive.result(chromium, "output", 1)
    assert only.startswith("logits")


def test_the_lines_for_other_pages_write(chromium: Browser, translator: Translator) -> None:
    chromium.goto(f"{translator.url}models/translator/?device=wasm&dtype=fp32")
    drive.ready(chromium)
    assert chromium.evaluate(PASTE, translator.read, WRITTEN) == translator.want
