"""Pre- and post-processing as ONNX graphs of standard operators, run on both sides.

Each graph is opset 18 of ai.onnx and IR version 10, so that onnxruntime on the CPU and
onnxruntime-web's wasm run the same file: page and reference can't drift apart.
"""

from builder.prepost.classification import classification_post
from builder.prepost.draft import Draft, free_name, signature_of
from builder.prepost.faces import centerface_post
from builder.prepost.filetype import FileTypeRules, filetype_post, filetype_pre
from builder.prepost.image import ImageInput, Placement, image_pre

__all__ = [
    "Draft",
    "FileTypeRules",
    "ImageInput",
    "Placement",
    "centerface_post",
    "classification_post",
    "filetype_post",
    "filetype_pre",
    "free_name",
    "image_pre",
    "signature_of",
]
