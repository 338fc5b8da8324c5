"""Make the module of a GGUF file, whose quantised weights become fp32, by transformers."""

from __future__ import annotations

from pathlib import Path

from builder.sources import generative, huggingface
from builder.sources.torch_spec import TorchParts

SOURCE = "builder.sources.gguf:factory"

ENDING = ".gguf"


def factory(path: Path) -> TorchParts:
    """The decoder of a file, with a cache of keys and values: see `generative`.

    Raises:
        MissingExtraError: transformers, or what it reads GGUF with, isn't installed.
        UnsupportedError: It can't be run with a cache.
    """
    # accelerate: transformers won't read a GGUF file without
    huggingface.require(path.name, ("transformers", "gguf", "accelerate"))
    import torch
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(
        path.parent, gguf_file=path.name, dtype=torch.float32, attn_implementation="eager"
    )
    return generative.parts(model, path.name)
