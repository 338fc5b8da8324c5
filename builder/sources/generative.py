"""Cut a transformers model that writes token by token into parts with a cache between runs.

A decoder takes `input_ids` i64[batch, sequence] that it hasn't seen yet and, of those that it has,
keys and values of each layer, `past_key_values.N.key` f32[batch, heads, past, head]; it gives
`logits` f32[batch, sequence, vocabulary] and `present.N.key`, which is past and sequence together.
With `past` 0 it reads a prompt, with `sequence` 1 it writes: one graph, so weights are there once.

An encoder gives the keys and values that every layer of its decoder looks at, once for all tokens:
`present.N.encoder.key`. The decoder's own are called `….N.decoder.key` then, and its tokens
`decoder_input_ids` where the encoder reads tokens too. Other names are Optimum's.

All texts of a batch are of one length: there is no mask for padding.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from builder.errors import UnsupportedError
from builder.generation import (
    DECODER,
    DECODER_TOKENS,
    ENCODER,
    PAST,
    PRESENT,
    SCORES,
    TOKENS,
    Generation,
)
from builder.sources.generative_inputs import MASKS, Masked, random_ids, source_of
from builder.sources.torch_spec import TorchExport, TorchParts

if TYPE_CHECKING:
    import torch

EXAMPLE = {"batch": 2, "past": 4, "sequence": 3, "source": 6}
"""Extents of the example: texts, tokens before, new tokens, and tokens that an encoder reads."""

EXTENTS = {"past": (0, 1, 9), "sequence": (1, 12)}
"""Lengths that are compared: a prompt, the second token, and longer ones than the example's."""

KEY_VALUE = ("key", "value")

DECODERS = {"attention_mask": "decoder_attention_mask"}
"""What an encoder-decoder model calls its decoder's arguments; it has no positions to be given."""

NO_CACHE = "what its layers keep between runs aren't keys and values"

OWN_PARTS = "Export the parts that you need with a PyTorch factory."

CLOSE = 1e-3
"""How far scores may be from those of a run without a cache."""

Cache = list[tuple["torch.Tensor", "torch.Tensor"]]


def parts(model: Any, name: str) -> TorchParts:
    """The parts of a model, in fp32 and with eager attention.

    Args:
        model: Of transformers, for causal language modelling or conditional generation.
        name: For messages.

    Raises:
        UnsupportedError: What its layers keep aren't keys and values, or with them it writes
            something else than without.
    """
    import torch

    if model._is_stateful:
        raise UnsupportedError(name, NO_CACHE, OWN_PARTS)
    model.eval()
    with torch.no_grad():
        if model.config.is_encoder_decoder:
            made = _encoder_and_decoder(model, name)
        else:
            made = {DECODER: _decoder_alone(model, name)}
    return TorchParts(made, generation(model))


def generation(model: Any) -> Generation:
    """What the model's own configuration says about choosing tokens."""
    said = model.generation_config
    config = model.config
    start = said.decoder_start_token_id if config.is_encoder_decoder else None
    forced = [token for _, token in sorted(getattr(said, "forced_decoder_ids", None) or [])]
    longest = getattr(config, "max_target_positions", None)
    return Generation(
        start=(*_tokens(start), *forced),
        end=_tokens(said.eos_token_id),
        suppress=_tokens(said.suppress_tokens),
        suppress_first=_tokens(said.begin_suppress_tokens),
        longest=int(longest or getattr(config, "max_position_embeddings", None) or 0),
    )


def _tokens(said: int | Sequence[int] | None) -> tuple[int, ...]:
    if said is None:
        return ()
    return (said,) if isinstance(said, int) else tuple(said)


def _decoder_alone(model: Any, name: str) -> TorchExport:
    import torch
    from transformers import DynamicCache

    def draw(extents: Mapping[str, int], seed: int) -> dict[str, torch.Tensor]:
        ids, past = random_ids(model.config, extents, seed), extents["past"]
        # A plain cache: one made for the model would forget what is outside of its windows.
        cache = DynamicCache()
        model(input_ids=ids[:, : max(past, 1)], use_cache=True, cache=cache)
        pairs = _pairs(cache, name)
        return {TOKENS: ids[:, past:], **dict(_named(pairs if past else _cut(pairs), PAST))}

    class Decoder(torch.nn.Module):
        def __init__(self, masked: Masked) -> None:
            super().__init__()
            self.model = model
            self.masked = masked

        def forward(self, input_ids: torch.Tensor, *past: torch.Tensor) -> tuple[Any, ...]:
            cache = DynamicCache(list(zip(past[::2], past[1::2], strict=True)))
            result = self.model(
                input_ids=input_ids,
                use_cache=True,
                cache=cache,
                **self.masked(model.config, input_ids, past[0].shape[-2]),
            )
            return result.logits, *(tensor for pair in _layers(cache) for tensor in pair)

    example = draw(EXAMPLE, 0)
    layers = (len(example) - 1) // 2
    whole = model(input_ids=random_ids(model.config, EXAMPLE, 0), use_cache=False).logits
    module = _first_right([Decoder(m) for m in MASKS], example, whole[:, EXAMPLE["past"] :], name)
    return TorchExport(module, example, _outputs(layers), _free(example), EXTENTS, draw)


def _encoder_and_decoder(model: Any, name: str) -> dict[str, TorchExport]:
    import torch
    from transformers import DynamicCache, EncoderDecoderCache

    takes = model.main_input_name
    text = takes == TOKENS
    tokens = DECODER_TOKENS if text else TOKENS

    def drawn(extents: Mapping[str, int], seed: int) -> tuple[torch.Tensor, Cache, Cache]:
        source, ids = source_of(model, name, extents, seed), random_ids(model.config, extents, seed)
        past = extents["past"]
        cache = EncoderDecoderCache(DynamicCache(), DynamicCache())
        before = ids[:, : max(past, 1)]
        model(**{takes: source}, decoder_input_ids=before, use_cache=True, cache=cache)
        own = _pairs(cache.self_attention_cache, name)
        return source, own if past else _cut(own), _pairs(cache.cross_attention_cache, name)

    def draw(extents: Mapping[str, int], seed: int) -> dict[str, torch.Tensor]:
        _, own, cross = drawn(extents, seed)
        return {
            tokens: random_ids(model.config, extents, seed)[:, extents["past"] :],
            **dict(_named(own, PAST, "decoder.")),
            **dict(_named(cross, PAST, "encoder.")),
        }

    source, own, cross = drawn(EXAMPLE, 0)
    layers, width = len(own), model.config.hidden_size

    class Encoder(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, read: torch.Tensor) -> tuple[torch.Tensor, ...]:
            hidden = self.model.get_encoder()(read).last_hidden_state
            cache = EncoderDecoderCache(DynamicCache(), DynamicCache())
            # The decoder fills the cache with what it looks at; what else it does is dropped.
            self.model.get_decoder()(
                input_ids=hidden[:, :1, 0].to(torch.int64) * 0,
                encoder_hidden_states=hidden,
                cache=cache,
                use_cache=True,
            )
            pairs = _layers(cache.cross_attention_cache)
            return tuple(tensor for pair in pairs for tensor in pair)

    class Decoder(torch.nn.Module):
        def __init__(self, masked: Masked) -> None:
            super().__init__()
            self.model = model
            self.masked = masked

        def forward(self, input_ids: torch.Tensor, *past: torch.Tensor) -> tuple[Any, ...]:
            pairs = list(zip(past[::2], past[1::2], strict=True))
            before = DynamicCache(pairs[:layers])
            # Only its shape counts: the keys and values made of it are in the cache.
            hidden = past[-1].new_zeros(past[-1].shape[0], past[-1].shape[2], width)
            masked = self.masked(model.config, input_ids, past[0].shape[-2])
            masked = {DECODERS[key]: value for key, value in masked.items() if key in DECODERS}
            result = self.model(
                encoder_outputs=(hidden,),
                decoder_input_ids=input_ids,
                use_cache=True,
                cache=EncoderDecoderCache(before, DynamicCache(pairs[layers:])),
                **masked,
            )
            return result.logits, *(tensor for pair in _layers(before) for tensor in pair)

    example = draw(EXAMPLE, 0)
    ids = random_ids(model.config, EXAMPLE, 0)
    whole = model(**{takes: source}, decoder_input_ids=ids, use_cache=False).logits
    decoder = _first_right([Decoder(m) for m in MASKS], example, whole[:, EXAMPLE["past"] :], name)
    free = {0: "batch"} | ({1: "source"} if text else {})
    made = [key for key, _ in _named(cross, PRESENT, "encoder.")]
    fixed = _free(example, fixed=not text)
    return {
        ENCODER: TorchExport(Encoder(), {takes: source}, made, {takes: free}),
        DECODER: TorchExport(decoder, example, _outputs(layers, "decoder."), fixed, EXTENTS, draw),
    }


def _outputs(layers: int, kind: str = "") -> list[str]:
    """Names of what a decoder gives."""
    return [SCORES, *(f"{PRESENT}{n}.{kind}{what}" for n in range(layers) for what in KEY_VALUE)]


def _pairs(cache: Any, name: str) -> Cache:
    """Keys and values of every layer after a run.

    Raises:
        UnsupportedError: Some have none.
    """
    if not cache.layers or any(layer.keys is None for layer in cache.layers):
        raise UnsupportedError(name, NO_CACHE, OWN_PARTS)
    return _layers(cache)


def _cut(cache: Cache) -> Cache:
    """The same with nothing in it."""
    return [(key[:, :, :0], value[:, :, :0]) for key, value in cache]


def _layers(cache: Any) -> Cache:
    return [(layer.keys, layer.values) for layer in cache.layers]


def _named(cache: Cache, prefix: str, kind: str = "") -> Iterator[tuple[str, torch.Tensor]]:
    for index, pair in enumerate(cache):
        for what, tensor in zip(KEY_VALUE, pair, strict=True):
            yield f"{prefix}{index}.{kind}{what}", tensor


def _free(example: Mapping[str, torch.Tensor], *, fixed: bool = False) -> dict[str, dict[int, str]]:
    """The free axes of a decoder's inputs; `fixed`: the encoder's length isn't among them."""
    free: dict[str, dict[int, str]] = {}
    for key in example:
        if key in (TOKENS, DECODER_TOKENS):
            free[key] = {0: "batch", 1: "sequence"}
        elif ".encoder." in key:
            free[key] = {0: "batch"} | ({} if fixed else {2: "source"})
        else:
            free[key] = {0: "batch", 2: "past"}
    return free


def _first_right(
    modules: Sequence[torch.nn.Module],
    example: Mapping[str, torch.Tensor],
    whole: torch.Tensor,
    name: str,
) -> torch.nn.Module:
    """The first module that scores tokens after a cache as the model does without."""
    import torch

    why = ""
    for module in modules:
        try:
            got = module(*(tensor.clone() for tensor in example.values()))[0]
        except Exception as error:  # it takes no such mask, or no positions
            why = f"it fails with {type(error).__name__}: {error}".splitlines()[0]
            continue
        apart = float((got - whole).abs().max() / whole.abs().max())
        if got.shape == whole.shape and torch.isfinite(got).all() and apart <= CLOSE:
            return module
        why = f"scores differ by {apart:.2g} of the largest from those without a cache"
    raise UnsupportedError(
        name,
        f"it can't be run with a cache of keys and values: {why}",
        OWN_PARTS,
    )
