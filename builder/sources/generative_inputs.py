"""What is run through a model that writes token by token, to cut it into parts and to compare them:
random tokens, and what each of them may look at.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from builder.errors import UnsupportedError
from builder.generation import TOKENS

if TYPE_CHECKING:
    import torch

MASKED = -10000.0
"""Added to the scores of tokens that are not to be seen, as BERT did: a half can hold it, unlike
the lowest fp32."""

Masked = Callable[[Any, Any, int], dict[str, Any]]
"""From the configuration, new tokens and the number of those before, arguments of the model."""


def source_of(model: Any, name: str, extents: Mapping[str, int], seed: int) -> torch.Tensor:
    """What an encoder reads: tokens i64[batch, source], or a spectrogram f32[batch, bins, frames]
    of the length that its positions are for.

    Raises:
        UnsupportedError: It reads something else; `name` is the model's.
    """
    import torch

    takes, config = model.main_input_name, model.config
    if takes == TOKENS:
        return random_ids(config, {**extents, "past": 0, "sequence": extents["source"]}, seed)
    if takes == "input_features" and hasattr(config, "max_source_positions"):
        generator = torch.Generator().manual_seed(seed)
        frames = 2 * config.max_source_positions  # the second convolution halves them
        return torch.randn(extents["batch"], config.num_mel_bins, frames, generator=generator)
    raise UnsupportedError(
        f"{name}, the encoder's input '{takes}'",
        "it isn't known how long it may be",
        "Models that read tokens or Whisper's spectrograms can be imported.",
    )


def random_ids(config: Any, extents: Mapping[str, int], seed: int) -> torch.Tensor:
    """Random tokens i64[batch, past + sequence], the same for the same seed."""
    import torch

    vocabulary = config.get_text_config(decoder=True).vocab_size
    generator = torch.Generator().manual_seed(seed)
    shape = (extents["batch"], extents["past"] + extents["sequence"])
    return torch.randint(min(3, vocabulary - 1), vocabulary, shape, generator=generator)


def _with_four_axes(config: Any, ids: torch.Tensor, past: int) -> dict[str, Any]:
    """A mask that transformers takes as it is, and positions; by the kind of layer, if several."""
    import torch

    at = torch.arange(ids.shape[1], device=ids.device) + past
    key = torch.arange(past + ids.shape[1], device=ids.device)
    hidden = key[None, :] > at[:, None]
    text = config.get_text_config(decoder=True)
    window = getattr(text, "sliding_window", None)
    kinds = sorted(set(getattr(text, "layer_types", None) or []))
    if not kinds:
        kinds = ["sliding_attention" if window else "full_attention"]
    masks = {}
    for kind in kinds:
        unseen = hidden
        if window and "sliding" in kind:
            unseen = hidden | (key[None, :] <= at[:, None] - window)
        masks[kind] = (unseen.to(torch.float32) * MASKED)[None, None]
    mixed = len(kinds) > 1
    return {
        "attention_mask": masks if mixed else masks[kinds[0]],
        "position_ids": at[None].expand(ids.shape[0], -1),
    }


def _left_to_it(_config: Any, _ids: torch.Tensor, _past: int) -> dict[str, Any]:
    """Whatever transformers makes of the cache."""
    return {}


MASKS: tuple[Masked, ...] = (_with_four_axes, _left_to_it)
"""Ways to say what each token may look at, the first that a model understands is taken."""
