"""Names of what `tensorflow_cases` makes, for tests in a process without TensorFlow."""

from __future__ import annotations

KERAS = (
    "perceptron",
    "convolutions and batch normalisation",
    "two inputs and outputs",
    "embedding, LSTM, GRU",
    "pictures of any size",
    "perceptron, .h5",
    "convolutions, .h5",
)

SAVED = (
    "named signature",
    "Keras's export",
)

LITE = (
    "convolutions",
    "weights in 8 bits",
    "all in 8 bits",
)

GRAPHS = (
    "same padding, odd stride",
    "same padding, stride 3",
    "valid padding",
    "dilation",
    "explicit padding",
    "depthwise",
    "transposed",
    "transposed, odd",
    "fused",
    "fused with a slope",
    "residual block",
    "batch normalisation",
    "pools",
    "pools, valid",
    "resized, ResizeBilinear from corners",
    "resized, ResizeBilinear from centres",
    "resized, ResizeBilinear from edges",
    "resized, ResizeNearestNeighbor from corners",
    "resized, ResizeNearestNeighbor from centres",
    "resized, ResizeNearestNeighbor from edges",
    "depth and space",
    "space and depth",
    "space and batch",
    "local response",
    "pads",
    "heads",
    "splits",
    "reductions",
    "reductions of a convolution",
    "channels that are largest",
    "product",
    "products of batches",
    "sum of products",
    "slices",
    "shapes",
    "packs",
    "arithmetic",
    "choices",
    "places",
)

REFUSED = {
    "double.keras": "its elements are of the type float64",
    "no_signature": "it has 0 signatures",
    "no_variables": "it can't be read",
    "strange": "nothing for the operators",
    "words": "its elements are of the type string",
}
"""Why TensorFlow's process refuses it, by file or folder."""

PITCHES = {"SavedModel": "nmp", "TensorFlow Lite": "nmp.tflite"}
"""Files of Basic Pitch, which lie in the folder already."""
