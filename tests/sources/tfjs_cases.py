"""Graphs of TensorFlow as graph models of TensorFlow.js, with what TensorFlow says of them.

Only in the process of `tensorflow_cases`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from google.protobuf import json_format
from tensorflow.core.protobuf import config_pb2
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2
from tensorflow.python.grappler import tf_optimizer
from tensorflow.python.training import saver

RNG = np.random.default_rng(1)


def floats(*shape: int) -> Any:
    return RNG.normal(0, 1, shape).astype(np.float32)


def conv(x: Any, kernel: Any, stride: int = 1, pad: Any = "SAME", dilation: int = 1) -> Any:
    return tf.nn.conv2d(x, kernel, stride, pad, dilations=dilation)


K3, K5, D3 = floats(3, 3, 3, 4), floats(5, 5, 3, 4), floats(3, 3, 3, 2)
UP, BIAS, P4 = floats(3, 3, 2, 3), floats(4), floats(1, 1, 4, 4)
MATRIX, MOMENTS = floats(6, 4), [np.abs(floats(3)) + 0.5 for _ in range(4)]
PICTURE, ROWS, STEPS = (2, 9, 12, 3), (3, 6), (2, 5, 6)


def block(x: Any) -> Any:
    """A residual block with a gate for each channel, as MobileNetV3 has them."""
    x = tf.nn.relu6(tf.nn.bias_add(conv(x, K3, 2), BIAS))
    gate = tf.reduce_mean(x, [1, 2], keepdims=True)
    gate = tf.nn.relu6(tf.nn.bias_add(conv(gate, P4), BIAS) + 3.0) / 6.0
    y = tf.nn.bias_add(conv(x * gate, P4), BIAS)
    return tf.concat([x + y, tf.nn.sigmoid(x)], -1)


def heads(x: Any) -> Any:
    shape = tf.shape(x)
    flat = tf.reshape(conv(x, K3), [shape[0], -1, 4])
    return tf.concat([flat[..., ::-1], tf.nn.softmax(flat)], 1)


def batches(x: Any) -> Any:
    y = tf.space_to_batch_nd(x, [2, 2], [[2, 1], [1, 1]])
    return tf.batch_to_space(conv(y, K3, 1, "VALID"), [2, 2], [[0, 0], [0, 0]])


GRAPHS: Mapping[str, tuple[Callable[..., Any], tuple[int, ...]]] = {
    "same padding, odd stride": (lambda x: conv(x, K3, 2), PICTURE),
    "same padding, stride 3": (lambda x: conv(x, K5, 3), PICTURE),
    "valid padding": (lambda x: conv(x, K5, 2, "VALID"), PICTURE),
    "dilation": (lambda x: conv(x, K3, 1, "SAME", 2), PICTURE),
    "explicit padding": (lambda x: conv(x, K3, 1, [[0, 0], [1, 0], [2, 1], [0, 0]]), PICTURE),
    "depthwise": (lambda x: tf.nn.depthwise_conv2d(x, D3, [1, 2, 2, 1], "SAME"), PICTURE),
    "transposed": (lambda x: tf.nn.conv2d_transpose(x, UP, [2, 18, 24, 2], 2), PICTURE),
    "transposed, odd": (lambda x: tf.nn.conv2d_transpose(x, UP, [2, 17, 23, 2], 2), PICTURE),
    "fused": (lambda x: tf.nn.relu(tf.nn.bias_add(conv(x, K3), BIAS)), PICTURE),
    "fused with a slope": (lambda x: tf.nn.leaky_relu(tf.nn.bias_add(conv(x, K3), BIAS)), PICTURE),
    "residual block": (block, PICTURE),
    "batch normalisation": (
        lambda x: tf.compat.v1.nn.fused_batch_norm(x, *MOMENTS, is_training=False)[0],
        PICTURE,
    ),
    "pools": (
        lambda x: tf.nn.max_pool2d(x, 3, 2, "SAME") - tf.nn.avg_pool2d(x, 3, 2, "SAME"),
        PICTURE,
    ),
    "pools, valid": (
        lambda x: tf.nn.max_pool2d(x, 2, 2, "VALID") + tf.nn.avg_pool2d(x, 2, 2, "VALID"),
        PICTURE,
    ),
    **{
        f"resized, {name}": (
            lambda x, kind=kind, told=told: getattr(tf.raw_ops, kind)(
                images=x, size=[20, 7], **told
            ),
            PICTURE,
        )
        for kind in ("ResizeBilinear", "ResizeNearestNeighbor")
        for name, told in {
            f"{kind} from corners": {"align_corners": True},
            f"{kind} from centres": {"half_pixel_centers": True},
            f"{kind} from edges": {},
        }.items()
    },
    "depth and space": (
        lambda x: tf.nn.depth_to_space(conv(x, K3), 2) - tf.nn.depth_to_space(conv(x, K3), 2) ** 2,
        PICTURE,
    ),
    "space and depth": (lambda x: tf.nn.space_to_depth(x[:, 1:], 2), PICTURE),
    "space and batch": (batches, PICTURE),
    "local response": (lambda x: tf.nn.local_response_normalization(x, 1, 1.0, 0.5), PICTURE),
    "pads": (
        lambda x: tf.concat(
            [
                tf.pad(x, [[0, 0], [1, 2], [0, 1], [0, 0]], constant_values=3.0)[:, 1:-1, :-1, :],
                tf.pad(conv(x, K3), [[0, 0], [2, 1], [1, 0], [0, 0]], "REFLECT")[:, 1:-1, :-1, :],
            ],
            -1,
        ),
        PICTURE,
    ),
    "heads": (heads, PICTURE),
    "splits": (
        lambda x: tf.concat(tf.split(conv(x, K3), 2, -1)[::-1] + tf.split(x, [1, 2], -1)[:1], -1),
        PICTURE,
    ),
    "reductions": (
        lambda x: (
            tf.reduce_max(x, 1)
            + tf.reduce_min(x, [1])
            - tf.reduce_sum(x, 1)
            + tf.reduce_prod(x, 1) * tf.reduce_mean(x, [1, 2, 3], keepdims=True)[:, 0]
        ),
        PICTURE,
    ),
    "reductions of a convolution": (
        lambda x: tf.reduce_mean(conv(x, K3), [1, 2]) + tf.reduce_max(conv(x, K3), [1, 2]),
        PICTURE,
    ),
    "channels that are largest": (lambda x: tf.argmax(conv(x, K3), -1), PICTURE),
    "product": (lambda x: tf.nn.elu(x @ MATRIX + BIAS), ROWS),
    "products of batches": (lambda x: tf.matmul(x, x, transpose_b=True) @ x, STEPS),
    "sum of products": (lambda x: tf.einsum("bti,ij->bjt", x, MATRIX), STEPS),
    "slices": (lambda x: x[:, 1:4:2, tf.newaxis, -2] + x[:, -1:0:-2, tf.newaxis, 0], STEPS),
    "shapes": (
        lambda x: tf.reshape(tf.transpose(x, [0, 2, 1]), [tf.shape(x)[0] * 6, tf.shape(x)[1]]),
        STEPS,
    ),
    "packs": (lambda x: tf.stack(tf.unstack(x, axis=1)[::-1], -1) + x[:, 0, :, None], STEPS),
    "arithmetic": (
        lambda x: (
            tf.math.log1p(x * x)
            + tf.math.rsqrt(x * x + 1)
            - tf.math.erf(x)
            + tf.math.expm1(-tf.abs(x))
            + tf.clip_by_value(x, -0.5, 0.7)
            + tf.math.squared_difference(x, 1)
            + tf.math.floormod(x, 0.7)
            + x // 0.3
            + tf.math.softplus(x)
            + tf.nn.selu(x)
        ),
        STEPS,
    ),
    "choices": (
        lambda x: (
            tf.where((x > 0) & (x < 1) | tf.math.logical_not(x >= -1), x, tf.zeros_like(x) - 2)
            + tf.cast(tf.reduce_any(x > 2, -1, keepdims=True), tf.float32)
            + tf.cast(tf.not_equal(tf.sign(x), 1), tf.float32)
        ),
        STEPS,
    ),
    "places": (
        lambda x: (
            tf.one_hot(tf.argmax(x, -1), 6, 2.0, -1.0)
            + tf.gather(x, [0, 5, 1, 2, 3, 3], axis=-1)
            + tf.tile(tf.math.top_k(x, 3).values, [1, 1, 2])
            + tf.reverse(x, [1])
            + tf.cumsum(x, 1, exclusive=True, reverse=True)
            + tf.cast(tf.range(6), tf.float32)
            + tf.broadcast_to(x[:, :1, :], tf.shape(x))
            + tf.fill([6], 0.5)
        ),
        STEPS,
    ),
}
"""A function, and the shape of what it takes; the first axis is free where it can be."""

FIXED = {"transposed", "transposed, odd"}


def graph_model(
    folder: Path, work: Callable[..., Any], shape: tuple[int, ...], *, free: bool
) -> None:
    """A graph model of TensorFlow.js, as its converter writes one, and what TensorFlow says."""
    spec = tf.TensorSpec([None if free else shape[0], *shape[1:]], tf.float32, name="x")
    function = tf.function(lambda x: tf.identity(work(x), "result"), input_signature=[spec])
    frozen = convert_variables_to_constants_v2(function.get_concrete_function())
    definition = fused(frozen)
    constants = {n.name: n for n in definition.node if n.op == "Const"}
    weights, data = [], b""
    for name, node in constants.items():
        array = tf.make_ndarray(node.attr["value"].tensor)
        array = array.astype(np.int32) if array.dtype == np.int64 else array
        weights.append({"name": name, "shape": array.shape, "dtype": array.dtype.name})
        data += array.tobytes()
        del node.attr["value"]
    half = len(data) // 2
    (folder / "group1-shard1of2.bin").write_bytes(data[:half])
    (folder / "group1-shard2of2.bin").write_bytes(data[half:])
    names = ["group1-shard1of2.bin", "group1-shard2of2.bin"]
    ends = {"outputs": {"result": {"name": function.get_concrete_function().outputs[0].name}}}
    model = {
        "format": "graph-model",
        "signature": ends,
        "modelTopology": json_format.MessageToDict(definition),
        "weightsManifest": [{"paths": names, "weights": weights}],
    }
    (folder / "model.json").write_text(json.dumps(model))
    x = floats(*shape)
    np.savez(folder / "data.npz", **{"in x": x, "out": function(tf.constant(x)).numpy()})


def fused(function: Any) -> Any:
    """What TensorFlow's optimiser makes of a graph with the passes that the converter asks for."""
    graph = function.graph.as_graph_def()
    meta = saver.export_meta_graph(graph_def=graph, graph=function.graph)
    outputs = meta.collection_def["train_op"]
    outputs.node_list.value.extend(tensor.name for tensor in function.outputs)
    config = config_pb2.ConfigProto()
    config.graph_options.rewrite_options.optimizers.extend(["constfold", "remap", "dependency"])
    return tf_optimizer.OptimizeGraph(config, meta)
