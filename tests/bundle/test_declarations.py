"""TypeScript takes a model's declarations, and finds with them what wouldn't run."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from builder.bundle.declarations import declarations
from tests import npm

INPUTS = [
    {"name": "image", "dtype": "uint8", "shape": ["height", "width", 4]},
    {
        "name": "iou-threshold",
        "dtype": "float32",
        "shape": [],
        "default": [0.5],
        "description": "Boxes that overlap more */ are one.\n@deprecated",
    },
    {"name": 'a"b\\c', "dtype": "float16", "shape": ["*/ dim"]},
    {"name": "größe", "dtype": "bool", "shape": [1]},
]
OUTPUTS = [
    {"name": "boxes", "dtype": "float16", "shape": ["n", 4]},
    {"name": "classes:0", "dtype": "int64", "shape": ["n"]},
]

CONSUMER = """\
import { type Info, load, OnnxsiteError } from "onnxsite-web";
import type { Inputs, Outputs } from "./model.js";

const data = new Uint8ClampedArray(4);
const image = { data, dims: [1, 1, 4] };
const odd = { [String.raw`a"b\\c` as 'a"b\\\\c']: { data: [1], dims: [1] } } as const;
const rest = { ...odd, größe: { data: [true], dims: [1] } };
export const model = await load<Inputs, Outputs>("models/odd/", { dtype: "int8" });
const { outputs } = await model.run({ image, ...rest });
export const boxes: Float32Array = outputs.boxes.data;
export const classes: BigInt64Array = outputs["classes:0"].data;
await model.run({ image, ...rest, "iou-threshold": { data: [0.4], dims: [] } });
export const stage = await model.run({ anything: image }, { stage: "pre" });
export const anything = (await (await load("models/odd/")).run({ pixels: image })).outputs.boxes;
export const dims: number[] | undefined = anything?.dims;
export const info: Info = model.info;
export const caught = (error: unknown) => error instanceof OnnxsiteError && error.advice;

await model.run({ image, ...rest, pixels: image }); // refused
await model.run({ image }); // refused
await model.run({ ...rest, image: { data: "0 0 0 0", dims: [1, 1, 4] } }); // refused
export const none = outputs.labels; // refused
export const wrong: BigInt64Array = outputs.boxes.data; // refused
await load("models/odd/", { dtype: "fp8" }); // refused
await load<{ image: string }, Outputs>("models/odd/"); // refused
export const inside = (await import("onnxsite-web/client.js")).WorkerClient; // refused
"""


@pytest.mark.parametrize("resolution", npm.RESOLUTIONS)
def test_right_use_is_taken_and_wrong_use_is_not(
    resolution: str, npm_package: Path, tmp_path: Path
) -> None:
    shutil.copytree(npm_package, tmp_path / "node_modules" / npm_package.name)
    manifest: Any = {"title": "Odd */ names", "interface": {"inputs": INPUTS, "outputs": OUTPUTS}}
    (tmp_path / "model.d.ts").write_text(declarations(manifest), encoding="utf-8")
    (tmp_path / "consumer.ts").write_text(CONSUMER, encoding="utf-8")
    lines = enumerate(CONSUMER.splitlines(), 1)
    wrong = {("consumer.ts", number) for number, line in lines if line.endswith("// refused")}
    assert npm.refused(tmp_path, resolution) == wrong


def test_every_path_of_the_package_is_there(npm_package: Path) -> None:
    description = json.loads((npm_package / "package.json").read_text())
    entry = description["exports"]["."]
    assert next(iter(entry)) == "types", "the first condition that fits wins"
    paths = [*entry.values(), description["types"]]
    paths += [path for path in description["exports"].values() if isinstance(path, str)]
    assert [path for path in paths if not (npm_package / path).is_file()] == []
    assert not description.keys() & {"dependencies", "scripts", "private"}
    assert {path.name for path in npm_package.iterdir()} >= {"README.md", "LICENSE"}


def test_the_package_is_made_the_same_again(npm_package: Path, tmp_path: Path) -> None:
    assert npm.node(npm.WEB / "package.mjs", tmp_path / "again", cwd=tmp_path).returncode == 0
    again = {path.name: path.read_bytes() for path in (tmp_path / "again").iterdir()}
    assert again == {path.name: path.read_bytes() for path in npm_package.iterdir()}
