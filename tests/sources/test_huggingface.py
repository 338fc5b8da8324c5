"""Folders of the Hugging Face Hub give in onnxruntime what transformers gives in PyTorch."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers as hf

from builder import sources
from builder.errors import OnnxsiteError
from builder.model import Model
from builder.recipe import ModelRecipe
from builder.session import Session

SMALL: dict[str, Any] = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
TEXT: dict[str, Any] = {
    **SMALL,
    "vocab_size": 60,
    "intermediate_size": 64,
    "max_position_embeddings": 64,
}
PICTURE: dict[str, Any] = {**SMALL, "intermediate_size": 64, "image_size": 32, "patch_size": 8}

CLASSES: dict[str, Any] = {"num_labels": 5}
SOUND: dict[str, Any] = {
    **SMALL,
    "vocab_size": 12,
    "intermediate_size": 64,
    "conv_dim": (16, 16),
    "conv_stride": (5, 4),
    "conv_kernel": (10, 8),
    "num_feat_extract_layers": 2,
    "num_conv_pos_embeddings": 16,
    "num_conv_pos_embedding_groups": 4,
}

ENCODERS: Mapping[str, Callable[[], Any]] = {
    "BERT": lambda: hf.BertModel(hf.BertConfig(**TEXT), add_pooling_layer=False),
    "RoBERTa, classes": lambda: hf.RobertaForSequenceClassification(
        hf.RobertaConfig(**TEXT, **CLASSES, pad_token_id=1)
    ),
    "ViT, classes": lambda: hf.ViTForImageClassification(hf.ViTConfig(**PICTURE, **CLASSES)),
    "wav2vec 2.0": lambda: hf.Wav2Vec2ForCTC(hf.Wav2Vec2Config(**SOUND)),
}


def load(folder: Path, work: Path) -> Model:
    work.mkdir()
    return sources.load(ModelRecipe(source=folder.name), base=folder.parent, files={}, work=work)


def inputs_of(model: Any) -> dict[str, np.ndarray[Any, Any]]:
    """Inputs of other sizes than the example's; of text, with padding."""
    rng = np.random.default_rng(3)
    if model.main_input_name == "pixel_values":
        return {"pixel_values": rng.normal(size=(3, 3, 32, 32)).astype(np.float32)}
    if model.main_input_name == "input_values":
        return {"input_values": rng.normal(size=(2, 9000)).astype(np.float32)}
    mask = np.ones((3, 11), np.int64)
    mask[0, 4:] = mask[1, 9:] = 0
    return {"input_ids": rng.integers(2, 60, mask.shape), "attention_mask": mask}


@pytest.mark.parametrize("make", ENCODERS.values(), ids=ENCODERS)
def test_encoders(make: Callable[[], Any], tmp_path: Path) -> None:
    torch.manual_seed(0)
    original = make().eval()
    original.save_pretrained(tmp_path / "folder")
    model = load(tmp_path / "folder", tmp_path / "work")
    feeds = inputs_of(original)
    with torch.no_grad():
        expected = original(**{name: torch.from_numpy(array) for name, array in feeds.items()})
    given = dict(feeds)
    for spec in model.signature.inputs:
        assert spec.shape[0] == "batch"
        if spec.name == "token_type_ids":
            given[spec.name] = np.zeros_like(feeds["input_ids"])
    said = Session(model.ir).run(given)
    for name, want in expected.items():
        seen: Any = slice(None)
        if want.ndim == 3 and "attention_mask" in feeds:
            seen = feeds["attention_mask"].astype(bool)  # nobody reads what is masked
        np.testing.assert_allclose(said[name][seen], want.numpy()[seen], atol=2e-4)
    assert model.provenance.name == "folder"


def folder(tmp_path: Path, **config: Any) -> Path:
    """A folder whose configuration is all that is read of it."""
    made = tmp_path / "folder"
    made.mkdir()
    (made / "config.json").write_text(json.dumps(config))
    (made / "model.safetensors").write_bytes(b"")
    return made


REFUSED: Mapping[str, tuple[dict[str, Any], str]] = {
    "no architecture": ({"model_type": "bert"}, "it names no architecture"),
    "unknown": (
        {"model_type": "bert", "architectures": ["HerOwnModel"]},
        "has no HerOwnModel",
    ),
    "damaged weights": ({"model_type": "bert", "architectures": ["BertModel"]}, "it fails with"),
}


@pytest.mark.parametrize(("config", "message"), REFUSED.values(), ids=REFUSED)
def test_refusals(tmp_path: Path, config: dict[str, Any], message: str) -> None:
    with pytest.raises(OnnxsiteError, match=f"folder.*({message})"):
        load(folder(tmp_path, **config), tmp_path / "work")
