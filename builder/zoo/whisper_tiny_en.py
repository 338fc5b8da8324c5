"""Make Whisper tiny.en out of a CTranslate2 file: its encoder and its decoder, as two graphs.

The file holds the official weights in fp16, renamed and with the projections of attention fused.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from builder.errors import MissingExtraError, SourceError
from builder.sources import TorchExport

if TYPE_CHECKING:
    import torch
    from transformers import WhisperForConditionalGeneration

CONFIG: dict[str, Any] = {
    "vocab_size": 51864,
    "d_model": 384,
    "encoder_layers": 4,
    "decoder_layers": 4,
    "encoder_attention_heads": 6,
    "decoder_attention_heads": 6,
    "encoder_ffn_dim": 1536,
    "decoder_ffn_dim": 1536,
    "num_mel_bins": 80,
    "max_source_positions": 1500,
    "max_target_positions": 448,
    "pad_token_id": 50256,
    "bos_token_id": 50257,
    "eos_token_id": 50256,
    "decoder_start_token_id": 50257,
}
"""What `openai/whisper-tiny.en` is trained with."""

MASKED = -10000.0
"""Added to the scores of tokens to come: a half can hold it, unlike the lowest fp32."""

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

Weights = Mapping[str, npt.NDArray[np.generic]]


def encoder(weights: Path) -> TorchExport:
    """From a log-mel spectrogram f32[1,80,3000], 30 s, to `encoder_hidden_states` f32[1,1500,384].

    Args:
        weights: `model.bin` of CTranslate2.
    """
    import torch

    class Encoder(torch.nn.Module):
        def __init__(self, model: WhisperForConditionalGeneration) -> None:
            super().__init__()
            self.encoder = model.model.encoder

        def forward(self, input_features: torch.Tensor) -> torch.Tensor:
            hidden: torch.Tensor = self.encoder(input_features).last_hidden_state
            return hidden

    example = {"input_features": torch.zeros(1, 80, 3000)}
    return TorchExport(Encoder(_model(weights)).eval(), example, ["encoder_hidden_states"], {})


def decoder(weights: Path) -> TorchExport:
    """From all tokens so far to scores of the next one, after each; it keeps no cache.

    `input_ids` i64[batch,sequence] and `encoder_hidden_states` f32[batch,1500,384] to `logits`
    f32[batch,sequence,51864].

    Args:
        weights: `model.bin` of CTranslate2.
    """
    import torch

    class Decoder(torch.nn.Module):
        def __init__(self, model: WhisperForConditionalGeneration) -> None:
            super().__init__()
            self.decoder = model.model.decoder
            self.proj_out = model.proj_out  # tied to the embedding

        def forward(
            self, input_ids: torch.Tensor, encoder_hidden_states: torch.Tensor
        ) -> torch.Tensor:
            # Four axes: transformers takes the mask as it is, and doesn't build one with vmap.
            position = torch.arange(input_ids.shape[1], device=input_ids.device)
            later = (position[None, :] > position[:, None]).to(torch.float32)
            hidden = self.decoder(
                input_ids=input_ids,
                attention_mask=(later * MASKED)[None, None],
                encoder_hidden_states=encoder_hidden_states,
                use_cache=False,
            ).last_hidden_state
            logits: torch.Tensor = self.proj_out(hidden)
            return logits

    example = {
        "input_ids": torch.tensor([[50257, 50362, 843], [50257, 50362, 262]]),
        "encoder_hidden_states": torch.zeros(2, 1500, 384),
    }
    free = {"input_ids": {0: "batch", 1: "sequence"}, "encoder_hidden_states": {0: "batch"}}
    return TorchExport(Decoder(_model(weights)).eval(), example, ["logits"], free)


def _model(weights: Path) -> WhisperForConditionalGeneration:
    """Transformers' model with all of its weights.

    Raises:
        MissingExtraError: transformers isn't installed.
        SourceError: The file isn't CTranslate2's, or of another model.
    """
    import torch

    try:
        from transformers import WhisperConfig, WhisperForConditionalGeneration
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            "Whisper tiny.en",
            "transformers isn't installed",
            "Install it: pip install 'onnxsite[zoo]'.",
        ) from error
    config = WhisperConfig(**CONFIG)
    config._attn_implementation = "eager"
    model = WhisperForConditionalGeneration(config)
    state = {}
    for name, array in _renamed(read(weights)):
        # fused projections have a bias for the keys too: zeros, which transformers doesn't have
        if not name.endswith("k_proj.bias"):
            state[f"model.{name}"] = torch.from_numpy(array.astype(np.float32))
    state["proj_out.weight"] = state["model.decoder.embed_tokens.weight"]
    model.load_state_dict(state)
    return model


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
        SourceError: It isn't one, or of another version.
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
    take("I")
    text()
    _, count = take("II")
    made = {}
    for _ in range(count):
        name = text()
        (rank,) = take("B")
        shape = take(f"{rank}I")
        dtype, size = take("BI")
        array = np.frombuffer(content, DTYPES[dtype], math.prod(shape), offset)
        made[name] = array.reshape(shape)
        offset += size
    return made
