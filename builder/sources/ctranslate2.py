"""Make Whisper out of a folder or file of CTranslate2: its encoder and its decoder.

The file holds the official weights in fp16, renamed and with the projections of attention fused.
What the model is shaped like is read off the weights.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from builder.errors import SourceError
from builder.sources import generative, huggingface
from builder.sources.torch_spec import TorchParts

if TYPE_CHECKING:
    from transformers import WhisperForConditionalGeneration

SOURCE = "builder.sources.ctranslate2:factory"

FILE = "model.bin"

SPECIFICATION = "WhisperSpec"
"""What CTranslate2 calls the kind of model."""

FORMAT = 6
"""Version of CTranslate2's format."""

DTYPES = ("<f4", "i1", "<i2", "<i4", "<f2")
"""By CTranslate2's numbers."""

NAMES = {
    "embeddings/weight": "embed_tokens.weight",
    "position_encodings/encodings": "embed_positions.weight",
    "self_attention/layer_norm": "self_attn_layer_norm",
    "self_attention/linear_0": "self_attn.q_proj self_attn.k_proj self_attn.v_proj",
    "self_attention/linear_1": "self_attn.out_proj",
    "attention/layer_norm": "encoder_attn_layer_norm",
    "attention/linear_0": "encoder_attn.q_proj",
    "attention/linear_1": "encoder_attn.k_proj encoder_attn.v_proj",
    "attention/linear_2": "encoder_attn.out_proj",
    "ffn/layer_norm": "final_layer_norm",
    "ffn/linear_0": "fc1",
    "ffn/linear_1": "fc2",
}
"""Names within a layer or stack, CTranslate2's to transformers'. Several: fused along axis 0."""

MULTILINGUAL = 51865
"""Tokens of the smallest vocabulary that has languages: one word more than the English one."""

NO_TIMESTAMPS = 50362
"""Of the English vocabulary."""

Weights = Mapping[str, npt.NDArray[np.generic]]


def matches(path: Path) -> bool:
    """Whether a path is such a file, or a folder with one."""
    path = path / FILE if path.is_dir() else path
    if path.suffix != ".bin" or not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(4) == struct.pack("<I", FORMAT)


def factory(path: Path) -> TorchParts:
    """Encoder and decoder, with a cache of keys and values: see `generative`.

    Args:
        path: A folder with `model.bin` and, for the tokens that are never written, `config.json`;
            or the file itself.

    Raises:
        MissingExtraError: transformers isn't installed.
        SourceError: It isn't CTranslate2's, is damaged, or another model than Whisper.
    """
    return generative.parts(whisper(path), path.name)


def whisper(path: Path) -> WhisperForConditionalGeneration:
    """Transformers' model with all of a folder's or file's weights, in fp32.

    Raises:
        MissingExtraError: transformers isn't installed.
        SourceError: It isn't CTranslate2's, is damaged, or another model than Whisper.
    """
    huggingface.require(path.name)
    import torch
    from transformers import WhisperConfig, WhisperForConditionalGeneration

    file = path / FILE if path.is_dir() else path
    weights = read(file)
    config = WhisperConfig(**_config(weights))
    config._attn_implementation = "eager"
    model = WhisperForConditionalGeneration(config)
    state = {}
    for name, array in _renamed(weights):
        # fused projections have a bias for the keys too: zeros, which transformers doesn't have
        if not name.endswith("k_proj.bias"):
            state[f"model.{name}"] = torch.from_numpy(array.astype(np.float32))
    state["proj_out.weight"] = state["model.decoder.embed_tokens.weight"]
    model.load_state_dict(state)
    _tell(model, file.with_name("config.json"))
    return model


def _config(weights: Weights) -> dict[str, Any]:
    """What the shapes of weights say about a model, in transformers' words."""
    vocabulary, width = weights["decoder/embeddings/weight"].shape
    made: dict[str, Any] = {
        "vocab_size": vocabulary,
        "d_model": width,
        "num_mel_bins": weights["encoder/conv1/weight"].shape[1],
        "max_source_positions": len(weights["encoder/position_encodings/encodings"]),
        "max_target_positions": len(weights["decoder/position_encodings/encodings"]),
    }
    for side in ("encoder", "decoder"):
        layers = [name for name in weights if name.startswith(f"{side}/layer_")]
        made[f"{side}_layers"] = len({name.split("/")[1] for name in layers} - {"layer_norm"})
        made[f"{side}_attention_heads"] = int(weights[f"{side}/num_heads"])
        made[f"{side}_ffn_dim"] = len(weights[f"{side}/layer_0/ffn/linear_0/bias"])
    end, start = _markers(vocabulary)
    return made | {
        "pad_token_id": end,
        "bos_token_id": end,
        "eos_token_id": end,
        "decoder_start_token_id": start,
    }


def _markers(vocabulary: int) -> tuple[int, int]:
    """End of text and start of transcript, which come after all words: see Whisper's tokenizer."""
    end = 50257 if vocabulary >= MULTILINGUAL else 50256
    return end, end + 1


def _tell(model: WhisperForConditionalGeneration, path: Path) -> None:
    """Take what a folder's configuration says about choosing tokens.

    English models are prompted to write no time stamps; others need a language and a task first,
    which is for the caller to say.
    """
    said = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    how: Any = model.generation_config
    how.suppress_tokens = said.get("suppress_ids")
    how.begin_suppress_tokens = said.get("suppress_ids_begin")
    if model.config.vocab_size < MULTILINGUAL:
        how.forced_decoder_ids = [[1, NO_TIMESTAMPS]]


def _renamed(weights: Weights) -> Iterator[tuple[str, npt.NDArray[np.generic]]]:
    """Weights and biases one by one, as `decoder.layers.0.self_attn.q_proj.weight` and so on."""
    for name, array in weights.items():
        stack, _, rest = name.partition("/")
        layer = ""
        if rest.startswith("layer_") and not rest.startswith("layer_norm"):
            number, _, rest = rest.removeprefix("layer_").partition("/")
            layer = f"layers.{number}."
        base, _, kind = rest.rpartition("/")
        kind = {"gamma": "weight", "beta": "bias"}.get(kind, kind)
        if rest in NAMES:
            yield f"{stack}.{NAMES[rest]}", array
        elif kind in {"weight", "bias"}:  # the rest are settings
            targets = NAMES.get(base, base).split()
            for target, part in zip(targets, np.split(array, len(targets)), strict=True):
                yield f"{stack}.{layer}{target}.{kind}", part


def read(path: Path) -> dict[str, npt.NDArray[np.generic]]:
    """Every variable of a CTranslate2 model.

    The file, little-endian: u32 version, the specification's name, u32 its revision, u32 count; for
    each variable its name, u8 rank, u32 extents, u8 dtype, u32 bytes, content; then aliases, which
    say what is tied. A name is u16 length, with the zero at its end, and the characters.

    Raises:
        SourceError: It isn't one, of another version, of another kind of model, or damaged.
    """
    content = path.read_bytes()
    offset = 0

    def take(form: str) -> tuple[int, ...]:
        nonlocal offset
        values = struct.unpack_from(f"<{form}", content, offset)
        offset += struct.calcsize(f"<{form}")
        return values

    def text() -> str:
        nonlocal offset
        (length,) = take("H")
        offset += length
        return content[offset - length : offset - 1].decode()

    if content[:4] != struct.pack("<I", FORMAT):
        raise SourceError(path.name, f"it isn't a CTranslate2 model of format {FORMAT}")
    made = {}
    try:
        take("I")
        kind = text()
        if kind != SPECIFICATION:
            raise SourceError(
                path.name,
                f"it is a model of CTranslate2's {kind}, and only {SPECIFICATION} can be imported",
                "Give the model that it was converted from.",
            )
        _, count = take("II")
        for _ in range(count):
            name = text()
            (rank,) = take("B")
            shape = take(f"{rank}I")
            dtype, size = take("BI")
            array = np.frombuffer(content, DTYPES[dtype], math.prod(shape), offset)
            made[name] = array.reshape(shape)
            offset += size
    except (struct.error, ValueError, IndexError) as error:
        raise SourceError(
            path.name, f"it ends or is damaged after {len(made)} weights ({error})"
        ) from error
    return made
