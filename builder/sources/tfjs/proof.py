"""Hold an imported graph model against TensorFlow. Runs in a process of its own (see `process`)."""

from __future__ import annotations

import base64
import os
import sys
import traceback
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import onnx
import onnx_ir as ir

from builder.errors import ImportMismatchError
from builder.inputs import random_inputs
from builder.model import Signature, Tensors, TensorSpec
from builder.session import Session
from builder.sources import process, tensorflow_export
from builder.sources.agreement import difference
from builder.sources.tfjs import files, graph

BATCHES = (1, 3)
"""Extents of a free batch that are compared, each with random inputs of its own."""

FRAMEWORK = "TensorFlow"

CONVOLUTION = "T strides padding explicit_paddings data_format dilations"


PARTS: Mapping[str, tuple[str, str]] = {
    "FusedDepthwiseConv2dNative": ("DepthwiseConv2dNative", CONVOLUTION),
    "_FusedConv2D": ("Conv2D", CONVOLUTION),
    "_FusedMatMul": ("MatMul", "T transpose_a transpose_b"),
}
"""What was fused, and the attributes that it had before: TensorFlow's own fused operators are
others in every release."""


def apart(entry: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """A node, or what it was before it was fused; the last one has its name."""
    if entry["op"] not in PARTS:
        yield dict(entry)
        return
    op, kept = PARTS[entry["op"]]
    name, told = entry["name"], entry["attr"]
    steps = told.get("fused_ops", {}).get("list", {}).get("s", [])
    kinds = [op, *(base64.b64decode(step).decode() for step in steps)]
    kind = {"T": told["T"]}
    for index, step in enumerate(kinds):
        made = f"{name}/{index}" if index < len(kinds) - 1 else name
        before = f"{name}/{index - 1}"
        inputs = entry["input"][:2] if not index else [before]
        inputs = [before, entry["input"][2]] if step == "BiasAdd" else inputs
        own = {key: told[key] for key in kept.split() if key in told} if not index else kind
        if step == "LeakyRelu":
            own = {**kind, "alpha": told.get("leakyrelu_alpha", {"f": 0.2})}
        yield {"name": made, "op": step, "input": inputs, "attr": own}


def definition(content: files.Content) -> Any:
    """The graph with its weights in it, as TensorFlow has one."""
    import tensorflow as tf
    from google.protobuf import json_format

    made = tf.compat.v1.GraphDef()
    entries = [part for entry in content.topology["node"] for part in apart(entry)]
    json_format.ParseDict({"node": entries}, made, ignore_unknown_fields=True)
    for node in made.node:
        if node.op == "Const" and node.name in content.weights:
            kind = node.attr["dtype"].type
            tensor = tf.make_tensor_proto(content.weights[node.name], kind)
            node.attr["value"].tensor.CopyFrom(tensor)
    return made


def run(content: files.Content, feeds: Tensors) -> Tensors:
    """What TensorFlow gives."""
    import tensorflow as tf

    what = graph.plan(content)
    with tf.Graph().as_default() as whole, tf.compat.v1.Session(graph=whole) as session:
        tf.import_graph_def(definition(content), name="")
        wanted = [source if ":" in source else f"{source}:0" for source in what.outputs.values()]
        given = {f"{what.inputs[name].name}:0": array for name, array in feeds.items()}
        results = session.run(wanted, given)
    return dict(zip(what.outputs, results, strict=True))


def prove(asked: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Do what the request says."""
    os.environ |= tensorflow_export.SETTINGS
    process.say("compare with TensorFlow")
    content = files.read(Path(asked["path"]), {n: Path(p) for n, p in asked["files"].items()})
    proto = onnx.load(folder / "model.onnx")
    session = Session(proto.SerializeToString())
    inputs = ir.from_proto(proto).graph.inputs
    signature = Signature(tuple(map(TensorSpec.of, inputs)), ())
    for seed, batch in enumerate(BATCHES):
        feeds = random_inputs(signature, seed=seed, dims={"batch": batch})
        try:
            want = run(content, feeds)
        except Exception as error:  # an operator that TensorFlow.js alone has, say
            traceback.print_exc()
            why = process.first_line(error)
            return {"events": [("info", f"not compared: {FRAMEWORK} can't run it ({why})")]}
        fault = difference(want, session.run(feeds), FRAMEWORK)
        if fault:
            raise ImportMismatchError("the graph", fault)
    return {
        "events": [("info", f"{FRAMEWORK}: the graph gives what it does on {len(BATCHES)} inputs")]
    }


if __name__ == "__main__":
    process.answer(Path(sys.argv[1]), prove)
