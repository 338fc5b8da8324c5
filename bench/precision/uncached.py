"""Graphs without a cache, which score every token of a text at once, to judge conversions on.

What is built has a cache (see `builder.sources.generative`); the weights are the same.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from builder.sources import TorchExport, ctranslate2
from builder.sources.generative_inputs import MASKED

if TYPE_CHECKING:
    import torch

HELLO = (1, 4093, 198, 19556, 17, 2)
"""A question that says "Hello!", in SmolLM2's tokens; any would do."""


def whisper_encoder(weights: Path) -> TorchExport:
    """From a log-mel spectrogram f32[1,80,3000], 30 s, to `encoder_hidden_states` f32[1,1500,384].

    Args:
        weights: Whisper tiny.en as CTranslate2's `model.bin`.
    """
    import torch

    class Encoder(torch.nn.Module):
        def __init__(self, model: Any) -> None:
            super().__init__()
            self.encoder = model.model.encoder

        def forward(self, input_features: torch.Tensor) -> torch.Tensor:
            hidden: torch.Tensor = self.encoder(input_features).last_hidden_state
            return hidden

    example = {"input_features": torch.zeros(1, 80, 3000)}
    module = Encoder(ctranslate2.whisper(weights))
    return TorchExport(module, example, ["encoder_hidden_states"], {})


def whisper_decoder(weights: Path) -> TorchExport:
    """From all tokens so far to scores of the next one, after each.

    `input_ids` i64[batch,sequence] and `encoder_hidden_states` f32[batch,1500,384] to `logits`
    f32[batch,sequence,51864].

    Args:
        weights: Whisper tiny.en as CTranslate2's `model.bin`.
    """
    import torch

    class Decoder(torch.nn.Module):
        def __init__(self, model: Any) -> None:
            super().__init__()
            self.decoder = model.model.decoder
            self.proj_out = model.proj_out  # tied to the embedding

        def forward(
            self, input_ids: torch.Tensor, encoder_hidden_states: torch.Tensor
        ) -> torch.Tensor:
            hidden = self.decoder(
                input_ids=input_ids,
                attention_mask=_later(input_ids),
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
    return TorchExport(Decoder(ctranslate2.whisper(weights)), example, ["logits"], free)


def smollm(weights: Path) -> TorchExport:
    """From all tokens so far to scores of the next one, after each.

    `input_ids` i64[1,sequence] to `logits` f32[1,sequence,49152].

    Args:
        weights: A GGUF file; what it holds in 4 bits becomes fp32.
    """
    import torch
    from transformers import LlamaForCausalLM

    class Decoder(torch.nn.Module):
        def __init__(self, model: Any) -> None:
            super().__init__()
            self.model = model.model
            self.lm_head = model.lm_head  # tied to the embedding

        def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
            hidden = self.model(
                input_ids=input_ids,
                attention_mask=_later(input_ids),
                position_ids=torch.arange(input_ids.shape[1], device=input_ids.device)[None],
                use_cache=False,
            ).last_hidden_state
            logits: torch.Tensor = self.lm_head(hidden)
            return logits

    model = LlamaForCausalLM.from_pretrained(
        weights.parent, gguf_file=weights.name, dtype=torch.float32, attn_implementation="eager"
    )
    example = {"input_ids": torch.tensor([HELLO])}
    return TorchExport(Decoder(model), example, ["logits"], {"input_ids": {1: "sequence"}})


def _later(input_ids: torch.Tensor) -> torch.Tensor:
    """A mask with four axes: transformers takes it as it is, and doesn't build one with vmap."""
    import torch

    position = torch.arange(input_ids.shape[1], device=input_ids.device)
    later = (position[None, :] > position[:, None]).to(torch.float32)
    return (later * MASKED)[None, None]
