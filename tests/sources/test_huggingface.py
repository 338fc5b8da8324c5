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
from builder.sources import huggingface
from tests.sources.exported import exported

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

DETR: dict[str, Any] = {
    "backbone_config": {
        "model_type": "resnet",
        "embedding_size": 8,
        "hidden_sizes": [8, 16],
        "depths": [1, 1],
        "out_features": ["stage2"],
    },
    "d_model": 32,
    "num_queries": 5,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 32,
    "decoder_ffn_dim": 32,
}
STAGES: dict[str, Any] = {"image_size": 32, "depths": [1, 1], **CLASSES}

ENCODERS: Mapping[str, Callable[[], Any]] = {
    "DistilBERT": lambda: hf.DistilBertModel(
        hf.DistilBertConfig(vocab_size=60, dim=32, n_layers=2, n_heads=2, hidden_dim=64)
    ),
    "ELECTRA, tokens": lambda: hf.ElectraForTokenClassification(
        hf.ElectraConfig(**TEXT, **CLASSES, embedding_size=16)
    ),
    "DeBERTa v2": lambda: hf.DebertaV2Model(hf.DebertaV2Config(**TEXT)),
    "MPNet": lambda: hf.MPNetModel(hf.MPNetConfig(**TEXT)),
    "CLIP, text": lambda: hf.CLIPTextModel(
        hf.CLIPTextConfig(**TEXT, eos_token_id=59, bos_token_id=58, pad_token_id=1)
    ),
    "CLIP, pictures": lambda: hf.CLIPVisionModel(hf.CLIPVisionConfig(**PICTURE)),
    "Swin, classes": lambda: hf.SwinForImageClassification(
        hf.SwinConfig(**STAGES, patch_size=4, embed_dim=16, num_heads=[2, 2], window_size=4)
    ),
    "ConvNeXt, classes": lambda: hf.ConvNextForImageClassification(
        hf.ConvNextConfig(num_stages=2, hidden_sizes=[16, 32], **STAGES)
    ),
    "ResNet, classes": lambda: hf.ResNetForImageClassification(
        hf.ResNetConfig(embedding_size=16, hidden_sizes=[16, 32], depths=[1, 1], **CLASSES)
    ),
    "SegFormer": lambda: hf.SegformerForSemanticSegmentation(
        hf.SegformerConfig(
            num_encoder_blocks=2,
            depths=[1, 1],
            sr_ratios=[2, 1],
            hidden_sizes=[16, 32],
            patch_sizes=[7, 3],
            strides=[4, 2],
            num_attention_heads=[1, 2],
            mlp_ratios=[2, 2],
            decoder_hidden_size=16,
            **CLASSES,
        )
    ),
    "T5, its encoder": lambda: hf.T5EncoderModel(
        hf.T5Config(vocab_size=60, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4)
    ),
    "DETR": lambda: hf.DetrForObjectDetection(hf.DetrConfig(**DETR)),
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


@pytest.mark.filterwarnings("ignore")  # exporters' own
@pytest.mark.parametrize("make", ENCODERS.values(), ids=ENCODERS)
def test_encoders(make: Callable[[], Any], tmp_path: Path) -> None:
    torch.manual_seed(0)
    original = make().eval()
    original.save_pretrained(tmp_path / "folder")
    processor = json.dumps({"size": {"height": 32, "width": 32}})
    (tmp_path / "folder" / "preprocessor_config.json").write_text(processor)
    model = exported(huggingface.factory(tmp_path / "folder"), tmp_path).models["model"]
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


def test_a_folder_is_imported_in_a_process_of_its_own(tmp_path: Path) -> None:
    ENCODERS["BERT"]().save_pretrained(tmp_path / "folder")
    model = load(tmp_path / "folder", tmp_path / "work")
    assert model.provenance.name == "folder"
    assert model.signature.outputs[0].name == "last_hidden_state"


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
