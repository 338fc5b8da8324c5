"""Models of TensorFlow with what TensorFlow says of them: `python -m …tensorflow_cases FOLDER`.

TensorFlow runs here, in a process of its own: it takes long to load, warns, and is no friend of
PyTorch. Every case leaves what the tests need in a folder of its own.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from builder.sources import tensorflow_export

os.environ |= tensorflow_export.SETTINGS  # before TensorFlow is loaded

import keras
import numpy as np
import tensorflow as tf
from keras import layers

from builder.errors import OnnxsiteError
from builder.sources import tensorflow
from builder.sources.tfjs import files, proof
from tests.sources import tensorflow_names as names
from tests.sources.tfjs_cases import FIXED, GRAPHS, floats, graph_model

keras.utils.set_random_seed(1)


def moved(model: Any) -> Any:
    """A model with weights that differ from those it starts with, so that each of them counts."""
    model.set_weights([w + 0.1 * np.abs(floats(*w.shape)) for w in model.get_weights()])
    return model


def mlp() -> Any:
    return keras.Sequential(
        [keras.Input((4,), name="features"), layers.Dense(8, "relu"), layers.Dense(3, "softmax")]
    )


def convnet() -> Any:
    return keras.Sequential(
        [
            keras.Input((16, 16, 3), name="picture"),
            layers.Conv2D(8, 3, padding="same", strides=2),
            layers.BatchNormalization(),
            layers.ReLU(6.0),
            layers.DepthwiseConv2D(3),
            layers.LeakyReLU(),
            layers.SeparableConv2D(160, 3, padding="same", activation="gelu"),
            layers.MaxPooling2D(),
            layers.Flatten(),
            layers.Dropout(0.5),
            layers.Dense(5, name="logits"),
        ]
    )


def two_inputs() -> Any:
    left, right = keras.Input((6,), name="left"), keras.Input((6,), name="right")
    both = layers.Concatenate()([layers.Dense(4, "tanh")(left), layers.Dense(4)(right)])
    outputs = [layers.Dense(2, name="score")(both), layers.Add(name="total")([left, right])]
    return keras.Model([left, right], outputs)


def text() -> Any:
    return keras.Sequential(
        [
            keras.Input((None,), dtype="int32", name="ids"),
            layers.Embedding(20, 8),
            layers.Bidirectional(layers.LSTM(6, return_sequences=True)),
            layers.GRU(5),
            layers.Dense(2, name="mood"),
        ]
    )


def any_size() -> Any:
    picture = keras.Input((None, None, 3), name="picture")
    x = layers.Conv2D(4, 3, padding="same", strides=2, activation="relu")(picture)
    x = layers.AveragePooling2D(3, 1, "same")(x)
    return keras.Model(picture, layers.Conv2DTranspose(2, 3, 2, "same", name="mask")(x))


IDS = np.array([[3, 1, 4, 1, 5, 9, 2], [6, 5, 3, 5, 8, 19, 7]], np.int32)

KERAS: Mapping[str, tuple[Callable[[], Any], str, tuple[Any, ...]]] = {
    "perceptron": (mlp, "model.keras", (floats(5, 4),)),
    "convolutions and batch normalisation": (convnet, "model.keras", (floats(2, 16, 16, 3),)),
    "two inputs and outputs": (two_inputs, "model.keras", (floats(3, 6), floats(3, 6))),
    "embedding, LSTM, GRU": (
        text,
        "model.keras",
        (IDS,),
    ),
    "pictures of any size": (any_size, "model.keras", (floats(2, 20, 24, 3),)),
    "perceptron, .h5": (mlp, "model.h5", (floats(5, 4),)),
    "convolutions, .h5": (convnet, "model.h5", (floats(2, 16, 16, 3),)),
}
"""A model, the name of its file, and inputs that the import hasn't seen."""


Saved = tuple[Path, Callable[..., Any], Mapping[str, Any]]
"""A folder, what it does, and inputs that the import hasn't seen."""


class Several(tf.Module):  # type: ignore[misc]
    """Two named inputs, two named outputs, a variable."""

    def __init__(self) -> None:
        super().__init__()
        self.table = tf.Variable(floats(6, 4))

    @tf.function(  # type: ignore[untyped-decorator]
        input_signature=[
            tf.TensorSpec([None, 6], tf.float32, name="signal"),
            tf.TensorSpec([None], tf.int32, name="which"),
        ]
    )
    def __call__(self, signal: Any, which: Any) -> Any:
        product = tf.nn.relu(signal @ self.table)
        return {"energy": tf.reduce_sum(product**2, -1), "chosen": tf.gather(self.table, which)}


def saved(folder: Path) -> Saved:
    module = Several()
    tf.saved_model.save(module, str(folder / "model"))
    given = {"signal": floats(3, 6), "which": np.array([1, 5, 0], np.int32)}
    return folder / "model", module, given


def exported(folder: Path) -> Saved:
    """As Keras writes it for serving."""
    model = moved(convnet())
    model.export(folder / "model", verbose=False)
    given = {"picture": floats(2, 16, 16, 3)}
    return folder / "model", lambda picture: {"output_0": model(picture)}, given


SAVED: Mapping[str, Callable[[Path], Saved]] = {
    "named signature": saved,
    "Keras's export": exported,
}


def lite(quantised: str) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        model = moved(convnet())
        converter = tf.lite.TFLiteConverter.from_keras_model(model)
        if quantised:
            converter.optimizations = [tf.lite.Optimize.DEFAULT]
        if quantised == "full":
            converter.representative_dataset = lambda: ([floats(1, 16, 16, 3)] for _ in range(20))
            converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
        (folder / "model.tflite").write_bytes(converter.convert())
        x = floats(2, 16, 16, 3)
        np.savez(folder / "data.npz", **{"in picture": x, "out output_0": model(x, training=False)})

    return make


LITE: Mapping[str, Callable[[Path], None]] = {
    "convolutions": lite(""),
    "weights in 8 bits": lite("dynamic"),
    "all in 8 bits": lite("full"),
}


def names_of(model: Any) -> list[str]:
    """Of the layers that give its outputs."""
    return [tensor._keras_history.operation.name for tensor in model.outputs]


def imported(folder: Path, path: Path, kind: str) -> None:
    """The graph that the import makes, without a process for each."""
    request = {"path": str(path), "kind": kind, "trust": False}
    report = tensorflow_export.export(request, folder)
    (folder / "events.json").write_text(json.dumps(report["events"]))


def prepare(folder: Path, name: str) -> Path:
    made = folder / name
    made.mkdir(parents=True)
    return made


def main(folder: Path) -> None:
    tables = (KERAS, SAVED, LITE, GRAPHS)
    told = (names.KERAS, names.SAVED, names.LITE, names.GRAPHS)
    assert [tuple(table) for table in tables] == list(told)
    for name, (make, file, given) in KERAS.items():
        here = prepare(folder, f"keras/{name}")
        model = moved(make())
        model.save(here / file)
        results = tf.nest.flatten(model(given[0] if len(given) == 1 else list(given)))
        data = {f"in {t.name}": x for t, x in zip(model.inputs, given, strict=True)}
        data |= {f"out {n}": np.asarray(r) for n, r in zip(names_of(model), results, strict=True)}
        np.savez(here / "data.npz", **data)
        imported(here, here / file, "keras")
    for name, save in SAVED.items():
        here = prepare(folder, f"saved/{name}")
        path, work, feeds = save(here)
        data = {f"in {key}": array for key, array in feeds.items()}
        data |= {f"out {key}": np.asarray(value) for key, value in work(**feeds).items()}
        np.savez(here / "data.npz", **data)
        imported(here, path, "saved model")
    for name, write in LITE.items():
        here = prepare(folder, f"lite/{name}")
        write(here)
        imported(here, here / "model.tflite", "tflite")
    for name, (work, shape) in GRAPHS.items():
        graph_model(prepare(folder, f"graphs/{name}"), work, shape, free=name not in FIXED)
    for name, file in names.PITCHES.items():
        kind = tensorflow.FORMATS.get(Path(file).suffix, "saved model")
        imported(prepare(folder, f"pitch/{name}"), folder / file, kind)
    content = files.read(folder / "centernet.json", {})
    for picture in sorted(folder.glob("*.npy")):
        pixels = {"tower_0/images": np.load(picture)}
        said: dict[str, Any] = {f"out {k}": v for k, v in proof.run(content, pixels).items()}
        said |= {f"in {key}": value for key, value in pixels.items()}
        np.savez(folder / f"{picture.stem}.npz", **said)
    here = prepare(folder, "refused")
    unusual(here)
    errors = {file: refused(here / file, prepare(here, f"made {file}")) for file in names.REFUSED}
    (here / "errors.json").write_text(json.dumps(errors))


def refused(path: Path, folder: Path) -> str:
    """The error that the import ends with."""
    kind = tensorflow.FORMATS.get(path.suffix, "saved model")
    try:
        imported(folder, path, kind)
    except OnnxsiteError as error:
        return str(error)
    return ""


def unusual(here: Path) -> None:
    """What is refused, each in its own way."""
    doubled = keras.Sequential([keras.Input((4,)), layers.Lambda(lambda x: x * 2)])
    doubled.save(here / "lambda.keras")
    doubled.save(here / "lambda.h5")
    wide = keras.Sequential([keras.Input((4,), dtype="float64"), layers.Dense(2, dtype="float64")])
    wide.save(here / "double.keras")
    mlp().save(here / "cut.h5")
    whole = (here / "cut.h5").read_bytes()
    (here / "cut.h5").write_bytes(whole[: len(whole) // 2])
    mlp().save_weights(here / "only.weights.h5")
    tf.saved_model.save(Several(), str(here / "no_variables"))
    for file in (here / "no_variables" / "variables").iterdir():
        file.unlink()
    tf.saved_model.save(tf.Module(), str(here / "no_signature"))
    words = tf.function(
        lambda x: tf.strings.length(x), input_signature=[tf.TensorSpec([None], tf.string, name="x")]
    )
    module = tf.Module()
    module.words = words
    tf.saved_model.save(module, str(here / "words"), signatures=words)
    strange = tf.function(
        lambda x: tf.linalg.logdet(x), input_signature=[tf.TensorSpec([None, 3, 3], tf.float32)]
    )
    module = tf.Module()
    module.strange = strange
    tf.saved_model.save(module, str(here / "strange"), signatures=strange)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
