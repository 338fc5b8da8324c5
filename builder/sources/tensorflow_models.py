"""Models of TensorFlow, Keras and TensorFlow Lite, each as a function on NumPy arrays.

Only in the process that `tensorflow_export` runs in: TensorFlow takes seconds to load.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import tensorflow as tf
import tf2onnx
from tensorflow.python.saved_model import revived_types

from builder.errors import SourceError, UnsupportedError
from builder.model import Tensors

OPSET = 18
"""Newest that tf2onnx writes."""

SIGNATURE = "serving_default"

DTYPES = "float32 float16 int8 uint8 int16 uint16 int32 uint32 int64 uint64 bool".split()
"""Element types that can be imported, by NumPy's names."""


@dataclass
class Subject:
    """A model.

    Attributes:
        framework: For people.
        inputs: NumPy's dtype and the shape of each, None where an axis is free.
        outputs: Their names, in order.
        run: From arrays by input, arrays by output.
        write: Makes the graph, with inputs and outputs in the same order.
        notes: What was decided, for the report.
        bytes: Whether it computes in 8 bits, at least in part.
    """

    framework: str
    inputs: Mapping[str, tuple[str, list[int | None]]]
    outputs: Sequence[str]
    run: Callable[[Tensors], Tensors]
    write: Callable[[], onnx.ModelProto]
    notes: Sequence[str] = ()
    bytes: bool = False


def from_saved_model(path: Path, *, trust: bool) -> Subject:
    """The default serving signature of a folder, or its only one.

    Raises:
        SourceError: It has none, or several.
    """
    del trust  # its operators are known ones, and are exported before anything runs
    loaded = tf.saved_model.load(str(path))
    names = [name for name in loaded.signatures if not name.startswith("_")]
    if not names or (len(names) > 1 and SIGNATURE not in names):
        raise SourceError(
            "the SavedModel",
            f"it has {len(names)} signatures ({', '.join(names) or 'none'})",
            f"Save it with one that is called {SIGNATURE}.",
        )
    chosen = SIGNATURE if SIGNATURE in names else names[0]
    function = loaded.signatures[chosen]

    def call(**feeds: Any) -> Any:
        return loaded.signatures[chosen](**feeds)  # not `function`, which keeps no variables

    specs = function.structured_input_signature[1]
    subject = _of_function("TensorFlow", specs, list(function.structured_outputs), call)
    if len(names) > 1:
        subject.notes = [f"its signature '{chosen}', of {', '.join(names)}"]
    return subject


def from_keras(path: Path, *, trust: bool) -> Subject:
    """A model that Keras saved, in either of its formats.

    Raises:
        SourceError: It was never built.
    """
    model = tf.keras.models.load_model(path, compile=False, safe_mode=not trust)
    if not getattr(model, "inputs", None):
        raise SourceError(
            "the Keras model", "its inputs aren't known", "Call it once before you save it."
        )
    names = _unique([tensor.name.split(":")[0] for tensor in model.inputs])
    specs = {
        name: tf.TensorSpec(tensor.shape, tensor.dtype)
        for name, tensor in zip(names, model.inputs, strict=True)
    }
    structure = getattr(model, "_inputs_struct", None)

    def call(**feeds: Any) -> dict[str, Any]:
        values = [feeds[name] for name in names]
        given = values[0] if len(values) == 1 else values
        if isinstance(structure, Mapping):
            given = tf.nest.pack_sequence_as(structure, values)
        result = model(given, training=False)
        if isinstance(result, Mapping):
            return dict(result)
        return dict(zip(outputs, tf.nest.flatten(result), strict=True))

    told = getattr(model, "_outputs_struct", None)
    outputs = (
        list(told)
        if isinstance(told, Mapping)
        else _unique([tensor._keras_history.operation.name for tensor in model.outputs])
    )
    return _of_function("Keras", specs, outputs, call)


class _Optimiser(tf.Module):  # type: ignore[misc]
    """What Keras 2 left in a SavedModel to train on; nobody needs it, but TensorFlow looks."""

    def add_slot(self, var: Any, slot_name: str) -> Any:
        """A variable that the optimiser keeps for another one."""
        del slot_name
        return tf.Variable(tf.zeros(var.shape, var.dtype), trainable=False)


revived_types.register_revived_type(
    "optimizer",
    lambda value: isinstance(value, _Optimiser),
    versions=[
        revived_types.VersionedTypeRegistration(
            object_factory=lambda _proto: _Optimiser(),
            version=1,
            min_producer_version=1,
            min_consumer_version=1,
        )
    ],
)


def _of_function(
    framework: str, specs: Mapping[str, Any], outputs: Sequence[str], call: Callable[..., Any]
) -> Subject:
    """A subject of what takes and gives tensors by name."""
    for name, spec in specs.items():
        if spec.shape.rank is None:
            raise UnsupportedError(
                f"input '{name}'", "its rank is unknown", "Save the model with a shape for it."
            )
    inputs = {
        name: (checked(name, tf.as_dtype(spec.dtype).name), spec.shape.as_list())
        for name, spec in specs.items()
    }
    names = list(inputs)

    @tf.function(  # type: ignore[untyped-decorator]
        input_signature=[
            tf.TensorSpec(spec.shape, spec.dtype, name=f"input_{index}")
            for index, spec in enumerate(specs.values())
        ]
    )
    def function(*args: Any) -> list[Any]:
        result = call(**dict(zip(names, args, strict=True)))
        return [tf.identity(result[name]) for name in outputs]

    gives = _apart(outputs, names)

    def run(feeds: Tensors) -> Tensors:
        results = function(*(tf.constant(feeds[name]) for name in names))
        return {name: r.numpy() for name, r in zip(gives, results, strict=True)}

    def write() -> onnx.ModelProto:
        concrete = function.get_concrete_function()
        inner = {tensor.name for _, tensor in concrete.graph.captures}  # constants of its own
        ends = [t.name for t in concrete.inputs if t.name not in inner]
        results = [tensor.name for tensor in concrete.outputs]
        definition = tf2onnx.tf_loader.from_function(concrete, ends, results)
        made: tuple[onnx.ModelProto, Any] = tf2onnx.convert.from_graph_def(
            definition, input_names=ends, output_names=results, opset=OPSET
        )
        return made[0]

    return Subject(framework, inputs, gives, run, write)


def from_tflite(path: Path, *, trust: bool) -> Subject:
    """A TensorFlow Lite file, run by its own interpreter."""
    del trust  # a file holds operators alone
    plain = tf.lite.experimental.OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    interpreter = tf.lite.Interpreter(str(path), experimental_op_resolver_type=plain)
    ends = [interpreter.get_input_details(), interpreter.get_output_details()]
    names = [[detail["name"] for detail in side] for side in ends]
    signatures = interpreter.get_signature_list()
    if len(signatures) == 1:
        runner = interpreter.get_signature_runner(next(iter(signatures)))
        sides = (runner.get_input_details(), runner.get_output_details())
        for index, side in enumerate(sides):
            told = {detail["index"]: name for name, detail in side.items()}
            pairs = zip(ends[index], names[index], strict=True)
            names[index] = [told.get(detail["index"], name) for detail, name in pairs]
    takes, gives = (_unique([name.removesuffix(":0") for name in side]) for side in names)
    gives = _apart(gives, takes)
    inputs = {}
    for name, detail in zip(takes, ends[0], strict=True):
        shape = [None if dim == -1 else int(dim) for dim in detail["shape_signature"]]
        inputs[name] = (checked(name, np.dtype(detail["dtype"]).name), shape)

    def run(feeds: Tensors) -> Tensors:
        for name, detail in zip(takes, ends[0], strict=True):
            interpreter.resize_tensor_input(detail["index"], feeds[name].shape)
        interpreter.allocate_tensors()
        for name, detail in zip(takes, ends[0], strict=True):
            interpreter.set_tensor(detail["index"], feeds[name])
        interpreter.invoke()
        found = zip(gives, ends[1], strict=True)
        return {name: interpreter.get_tensor(detail["index"]).copy() for name, detail in found}

    def write() -> onnx.ModelProto:
        made: tuple[onnx.ModelProto, Any] = tf2onnx.convert.from_tflite(str(path), opset=OPSET)
        return made[0]

    in_bytes = any(
        detail["dtype"] in (np.int8, np.uint8, np.int16)
        and len(detail["quantization_parameters"]["scales"])
        for detail in interpreter.get_tensor_details()
    )
    return Subject("TensorFlow Lite", inputs, gives, run, write, bytes=in_bytes)


READERS: Mapping[str, Callable[..., Subject]] = {
    "keras": from_keras,
    "saved model": from_saved_model,
    "tflite": from_tflite,
}


def checked(name: str, dtype: str) -> str:
    """An element type.

    Raises:
        UnsupportedError: The web runtime can't compute with it.
    """
    if dtype not in DTYPES:
        raise UnsupportedError(
            f"input '{name}'",
            f"its elements are of the type {dtype}",
            "Save the model with inputs of float32 or int32.",
        )
    return dtype


def _apart(outputs: Sequence[str], inputs: Sequence[str]) -> list[str]:
    """Names of outputs that no input has: ONNX has one name for both."""
    return [f"{name}_output" if name in inputs else name for name in outputs]


def _unique(names: Sequence[str]) -> list[str]:
    found: list[str] = []
    for name in names:
        count = sum(other == name or other.startswith(f"{name}_") for other in found)
        found.append(f"{name}_{count}" if name in found else name)
    return found
