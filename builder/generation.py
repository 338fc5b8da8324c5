"""Write token by token with a model's parts: the loop that the page's has as its twin.

Each run of the decoder takes the tokens that it hasn't seen, and the keys and values of those that
it has, which are outputs of the run before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from builder.errors import UsageError
from builder.model import Array, Model, Tensors, value_of
from builder.session import Session

ENCODER, DECODER = "encoder", "decoder"

PAST, PRESENT = "past_key_values.", "present."
"""What the names of a cache begin with, going in and coming out; Optimum's names."""

TOKENS, SCORES = "input_ids", "logits"

DECODER_TOKENS = "decoder_input_ids"
"""What a decoder's tokens are called where its encoder reads tokens too."""


@dataclass(frozen=True)
class Generation:
    """How a model's tokens are chosen: what transformers calls its generation configuration.

    Attributes:
        start: Tokens that the decoder is given before all others.
        end: Tokens that end a text.
        suppress: Tokens that are never chosen.
        suppress_first: Tokens that aren't chosen as the first.
        longest: How many tokens there may be, the prompt's included; 0 if the model sets no limit.
    """

    start: tuple[int, ...] = ()
    end: tuple[int, ...] = ()
    suppress: tuple[int, ...] = ()
    suppress_first: tuple[int, ...] = ()
    longest: int = 0

    @classmethod
    def read(cls, said: Mapping[str, Any]) -> Generation:
        """From JSON, which has no tuples."""
        lists = {name: tuple(said[name]) for name in ("start", "end", "suppress", "suppress_first")}
        return cls(**lists, longest=said["longest"])


@dataclass(frozen=True)
class Parts:
    """The parts of an imported model, most often one.

    Attributes:
        models: By name, in the order in which they're run.
        generation: How tokens are chosen, if the last one is a decoder with a cache.
    """

    models: Mapping[str, Model]
    generation: Generation | None = None


def wired(models: Mapping[str, Model]) -> dict[str, Model]:
    """The same with sources for their caches: what comes out as `present.X` goes in as
    `past_key_values.X`.

    Args:
        models: By name, in the order in which they're run.
    """
    made: set[str] = set()
    found = {}
    for name, model in models.items():
        made |= {spec.name for spec in model.signature.outputs}
        sources = {
            spec.name: PRESENT + spec.name.removeprefix(PAST)
            for spec in model.signature.inputs
            if spec.name.startswith(PAST) and PRESENT + spec.name.removeprefix(PAST) in made
        }
        found[name] = replace(model, signature=model.signature.with_sources(sources))
    return found


class Generator:
    """Chooses the likeliest token, again and again.

    Args:
        parts: `decoder`, and `encoder` where the decoder has inputs of an encoder's.

    Raises:
        UnsupportedError: onnxruntime can't run one of them.
        UsageError: There is no decoder.
    """

    def __init__(self, parts: Parts) -> None:
        models = parts.models
        if DECODER not in models:
            raise UsageError("generation", f"there is no {DECODER} among {', '.join(models)}")
        self._generation = parts.generation or Generation()
        self._sessions = {name: Session(model.ir) for name, model in models.items()}
        self._inputs = models[DECODER].signature.inputs
        self._tokens = next(spec.name for spec in self._inputs if spec.source is None)

    def stream(
        self, prompt: Sequence[int] = (), inputs: Mapping[str, Array] | None = None, *, limit: int
    ) -> Iterator[int]:
        """The tokens that are written after a prompt, each as soon as it is known, without the end.

        Args:
            prompt: Tokens; those of `Generation.start` come before them.
            inputs: Of the encoder.
            limit: How many tokens at most.

        Raises:
            UsageError: There is nothing to go on from.
        """
        wanted = self._generation
        unseen = [*wanted.start, *prompt]
        if not unseen:
            raise UsageError("prompt", "it has no token, and the model needs one to start from")
        longest = wanted.longest or len(unseen) + limit
        state = self.start(inputs or {})
        for index in range(min(limit, longest - len(unseen))):
            scores = self.step(unseen, state)
            scores[list(wanted.suppress)] = -np.inf
            if index == 0:
                scores[list(wanted.suppress_first)] = -np.inf
            token = int(scores.argmax())
            if token in wanted.end:
                return
            yield token
            unseen = [token]

    def start(self, inputs: Mapping[str, Array]) -> Tensors:
        """What there is before any token: the encoder's outputs, where there is one."""
        encoder = self._sessions.get(ENCODER)
        return {} if encoder is None else encoder.run(inputs)

    def step(self, tokens: Sequence[int], state: Tensors) -> Array:
        """Scores f32[vocabulary] of what comes after these tokens, which go into the state."""
        feeds = {
            spec.name: value_of(spec, state) for spec in self._inputs if spec.source is not None
        }
        outputs = self._sessions[DECODER].run({self._tokens: np.array([tokens], np.int64), **feeds})
        last: Array = outputs.pop(SCORES)[0, -1]
        state |= outputs
        return last
