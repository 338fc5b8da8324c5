"""What the tests import, as a table: `python -m tests.sources.matrix` prints it for the docs."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator

from tests.sources import (
    tensorflow_names,
    test_architectures,
    test_catalog,
    test_estimators,
    test_generative,
    test_huggingface,
    test_onnx_forms,
    test_tensorflow,
    test_tfjs,
    test_torch_files,
)

PASSES = "as the framework"

WRITES = "the tokens that transformers writes"


def plain(pattern: str) -> str:
    """A pattern that a message must match, for people."""
    words = re.sub(r"\\(.)", r"\1", pattern.replace(".*", " … "))
    return words.replace("|", " or ")


def rows() -> Iterator[tuple[str, str, str]]:
    """Of every row of the tests: what it is of, what it is, and how it ends."""
    for name in test_onnx_forms.FORMS:
        yield "ONNX", name, "as the file"
    for name in (*test_catalog.ROWS, "Kokoro-82M, int8"):
        yield "published ONNX", name, "as the file"
    for name in test_catalog.FACTORIES:
        yield "published weights, a factory", name, PASSES
    for name in test_torch_files.FILES:
        yield "PyTorch's own file", name, PASSES
    for name, (*_, why) in test_torch_files.REFUSED.items():
        yield "PyTorch's own file", name, f"refused: {plain(why)}"
    for name in test_architectures.ROWS:
        yield "PyTorch, a factory", name, PASSES
    for name in test_architectures.REFUSED:
        yield "PyTorch, a factory", name, "refused by name"
    for name in test_huggingface.ENCODERS:
        yield "Hugging Face", name, PASSES
    for name, (_, why) in test_huggingface.REFUSED.items():
        yield "Hugging Face", name, f"refused: {why}"
    for name in (*test_generative.DECODERS, *test_generative.PAIRS):
        yield "Hugging Face, writing", name, WRITES
    for name, (_, why) in test_generative.REFUSED.items():
        yield "Hugging Face, writing", name, f"refused: {why}"
    for kind, name in test_generative.REAL.items():
        yield kind, name, WRITES
    for what, names in {
        "Keras": tensorflow_names.KERAS,
        "SavedModel": tensorflow_names.SAVED,
        "TensorFlow Lite": tensorflow_names.LITE,
        "Basic Pitch, whose ONNX file gives the same": tensorflow_names.PITCHES,
        "TensorFlow.js, graph": tensorflow_names.GRAPHS,
        "TensorFlow.js, layers": test_tfjs.LAYERS,
    }.items():
        for name in names:
            yield what, name, PASSES
    yield "TensorFlow.js, graph", "CenterNet on photographs", PASSES
    for name, (_, why) in test_tensorflow.UNREAD.items():
        yield "Keras", name, f"refused: {why.partition('.*')[0]}"
    for name, why in tensorflow_names.REFUSED.items():
        yield "TensorFlow", name, f"refused: {why}"
    for name, (_, _, why) in test_tfjs.BROKEN.items():
        yield "TensorFlow.js, graph", name, f"refused: {why}"
    for kind, estimators in {
        "classifier": test_estimators.CLASSIFIERS,
        "regressor": test_estimators.REGRESSORS,
        "mixed columns": test_estimators.TABLES,
    }.items():
        for name in estimators:
            yield f"scikit-learn, {kind}", name, PASSES
    for name in test_estimators.BOOSTERS:
        yield "a booster's own file", name, PASSES
    for name, (_, why) in test_estimators.REFUSED.items():
        yield "scikit-learn", name, f"refused: {why}"


def table() -> str:
    """The rows as a table in Markdown."""
    head = "| source | what | result |\n|---|---|---|\n"
    return head + "".join(f"| {' | '.join(row)} |\n" for row in rows())


if __name__ == "__main__":
    sys.stdout.write(table())
