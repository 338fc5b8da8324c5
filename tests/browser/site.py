"""The site that the browsers look at, as the command line builds it, and its models on the CPU."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

ROOT = Path(__file__).resolve().parents[2]

MODELS = ("efficientnet-lite0", "centerface", "magika", "encoder", "mixed")
"""Ids: three of the zoo, and two of no known task."""

DTYPES = "fp32,fp16,int8,q4,q4f16,q8,uint8"

Arrays = dict[str, npt.NDArray[Any]]


def mixed() -> onnx.ModelProto:
    """A model of no known task with a float, an int64 and a bool input and a symbolic batch.

    `y = relu(x @ w + table[ids])`, and `picked` is y where `mask` holds, else 0.
    """
    rng = np.random.default_rng(11)
    initializers = [
        numpy_helper.from_array(rng.normal(0, 0.3, (8, 16)).astype(np.float32), "w"),
        numpy_helper.from_array(rng.normal(0, 1, (10, 16)).astype(np.float32), "table"),
        numpy_helper.from_array(np.zeros((), np.float32), "zero"),
    ]
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["xw"]),
        helper.make_node("Gather", ["table", "ids"], ["rows"]),
        helper.make_node("Add", ["xw", "rows"], ["sum"]),
        helper.make_node("Relu", ["sum"], ["y"]),
        helper.make_node("Where", ["mask", "y", "zero"], ["picked"]),
    ]
    graph = helper.make_graph(
        nodes,
        "mixed",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 8]),
            helper.make_tensor_value_info("ids", TensorProto.INT64, ["batch"]),
            helper.make_tensor_value_info("mask", TensorProto.BOOL, ["batch", 16]),
        ],
        [
            helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 16]),
            helper.make_tensor_value_info("picked", TensorProto.FLOAT, ["batch", 16]),
        ],
        initializers,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def encoder() -> onnx.ModelProto:
    """A feed-forward layer of a transformer behind a table: where products are all that counts.

    `s = table[ids] + x`, `y = norm(s + gelu(s @ up) @ down)`, Gelu as exporters spell it out.
    """
    rng = np.random.default_rng(12)
    arrays = {
        "table": rng.normal(0, 1, (1000, 128)),
        "up": rng.normal(0, 0.1, (128, 512)),
        "down": rng.normal(0, 0.1, (512, 128)),
        "root": np.sqrt(2),
        "one": np.array(1.0),
        "half": np.array(0.5),
        "scale": np.ones(128),
        "bias": np.zeros(128),
    }
    nodes = [
        helper.make_node("Gather", ["table", "ids"], ["rows"]),
        helper.make_node("Add", ["rows", "x"], ["s"]),
        helper.make_node("MatMul", ["s", "up"], ["h"]),
        helper.make_node("Div", ["h", "root"], ["scaled"]),
        helper.make_node("Erf", ["scaled"], ["erf"]),
        helper.make_node("Add", ["erf", "one"], ["shifted"]),
        helper.make_node("Mul", ["h", "shifted"], ["twice"]),
        helper.make_node("Mul", ["twice", "half"], ["gelu"]),
        helper.make_node("MatMul", ["gelu", "down"], ["o"]),
        helper.make_node("Add", ["o", "s"], ["sum"]),
        helper.make_node("LayerNormalization", ["sum", "scale", "bias"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "encoder",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", 128]),
            helper.make_tensor_value_info("ids", TensorProto.INT64, ["rows"]),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["rows", 128])],
        [numpy_helper.from_array(np.asarray(a, np.float32), n) for n, a in arrays.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def build(folder: Path) -> Path:
    """Build the site below `folder` by the command line; gives its root."""
    out, own = folder / "site", {"mixed": mixed(), "encoder": encoder()}
    for name, proto in own.items():
        onnx.save(proto, folder / f"{name}.onnx")
    sources = [str(folder / f"{m}.onnx") if m in own else f"zoo:{m}" for m in MODELS]
    command = [sys.executable, "-m", "builder", "build", *sources, "-o", str(out), "--json"]
    command += ["--dtype", DTYPES]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    ids = {entry["id"] for entry in json.loads(done.stdout)["models"]}
    assert ids == set(MODELS)
    return out


@dataclass(frozen=True)
class Site:
    """A built site on disk and the address that it is served at."""

    folder: Path
    url: str

    def manifest(self, model: str) -> Any:
        """A model's manifest."""
        return json.loads((self.folder / "models" / model / "manifest.json").read_bytes())

    def read(self, file: Mapping[str, Any]) -> bytes:
        """A file that a manifest names."""
        return Path(self.folder, str(file["path"])).read_bytes()

    def sample(self, model: str, title: str) -> bytes:
        """A sample of a model, by its title."""
        samples = self.manifest(model)["samples"]
        return self.read(next(s["file"] for s in samples if s["title"] == title))

    def variants(self, model: str) -> dict[str, Any]:
        """The model stage's variants by name."""
        return {v["name"]: v for v in stage(self.manifest(model), "model")["variants"]}

    def stored(self, reference: Mapping[str, Any]) -> Arrays:
        """Every tensor of a stored reference, by name."""
        content = self.read(reference["file"])
        entries = [*reference["inputs"], *(o for s in reference["stages"] for o in s["outputs"])]
        return {
            e["name"]: np.frombuffer(
                content, e["dtype"], int(np.prod(e["shape"])), e["offset"]
            ).reshape(e["shape"])
            for e in entries
        }

    def on_the_cpu(self, model: str, kind: str, name: str, inputs: Arrays) -> Arrays:
        """Run one stage of the site's own files with onnxruntime, apart from the builder's code."""
        session = _session(self.folder, model, kind, name)
        names = [value.name for value in session.get_outputs()]
        feeds = {value.name: inputs[value.name] for value in session.get_inputs()}
        return dict(zip(names, session.run(names, feeds), strict=True))


def stage(manifest: Any, kind: str) -> Any:
    """A manifest's stage of a kind."""
    return next(entry for entry in manifest["stages"] if entry["kind"] == kind)


@cache
def _session(folder: Path, model: str, kind: str, name: str) -> Any:
    site = Site(folder, "")
    variant = next(v for v in stage(site.manifest(model), kind)["variants"] if v["name"] == name)
    options = ort.SessionOptions()
    options.log_severity_level = 4
    blobs = {blob["name"]: b"".join(map(site.read, blob["shards"])) for blob in variant["weights"]}
    options.add_external_initializers_from_files_in_memory(
        list(blobs), list(blobs.values()), [len(blob) for blob in blobs.values()]
    )
    return ort.InferenceSession(site.read(variant["graph"]), options, ["CPUExecutionProvider"])
