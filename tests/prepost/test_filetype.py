"""Features and rules are those of the reference implementation, the `magika` package."""

from __future__ import annotations

import io
import random
from collections.abc import Iterator
from pathlib import Path

import magika
import numpy as np
import onnx
import onnx_ir as ir
import pytest
from magika.types import ContentTypeLabel, PredictionMode
from magika.types.seekable import Seekable

from builder.model import Array, Tensors, TensorSpec
from builder.prepost import FileTypeRules, filetype_post, filetype_pre
from builder.session import Session
from builder.tasks import file_type

PACKAGE = Path(magika.__file__).parent
CONFIG = PACKAGE / "models" / "standard_v3_3" / "config.min.json"
KINDS = PACKAGE / "config" / "content_types_kb.min.json"
MODES = {
    "high-confidence": PredictionMode.HIGH_CONFIDENCE,
    "medium-confidence": PredictionMode.MEDIUM_CONFIDENCE,
    "best-guess": PredictionMode.BEST_GUESS,
}

INPUT = TensorSpec("features", "int32", ("batch", 2048))
OUTPUT = TensorSpec("probabilities", "float32", ("batch", 214))


def _rules(mode: str = "high-confidence") -> tuple[FileTypeRules, list[str]]:
    return file_type.rules(CONFIG, KINDS, mode)


@pytest.fixture(scope="module")
def pre() -> Session:
    model = filetype_pre(_rules()[0], INPUT)
    onnx.checker.check_model(ir.to_proto(model), full_check=True)
    return Session(model)


@pytest.fixture(scope="module")
def reference() -> magika.Magika:
    return magika.Magika()


def _features(content: bytes) -> list[int]:
    """What the reference shows its model."""
    features = magika.Magika._extract_features_from_seekable(
        Seekable(io.BytesIO(content)), 1024, 0, 1024, 256, 4096, False
    )
    return [*features.beg, *features.end]


def _contents() -> Iterator[bytes]:
    rng = random.Random(11)
    blank = b" \t\n\r\x0b\x0c"
    yield from (b"", b"a", b"\x00", b" ", b"\x85", b"\x1c", blank, blank * 2000, b"12345678")
    yield from (b" 1234567", b"1234567 ", b"\n" * 4096 + b"x" * 5000, b"x" * 4096 + b" " * 4096)
    yield from (bytes(range(256)) * 64, blank + bytes(range(256)) + blank)
    for size in (7, 8, 9, 1023, 1024, 1025, 2048, 4095, 4096, 4097, 6000, 8191, 8192, 8193, 50000):
        yield rng.randbytes(size)
        lead, trail = (bytes(rng.choices(blank, k=rng.randrange(3000))) for _ in range(2))
        yield lead + rng.randbytes(size) + trail


def test_features_are_those_of_the_reference(pre: Session) -> None:
    for content in _contents():
        got = pre.run({"bytes": np.frombuffer(content, np.uint8)})["features"]
        assert got.shape == (1, 2048)
        assert got.dtype == np.int32
        assert got[0].tolist() == _features(content), (len(content), content[:20])


def test_both_ends_of_a_long_file_are_enough(pre: Session) -> None:
    content = np.frombuffer(random.Random(5).randbytes(20000), np.uint8)
    whole, both = pre.run({"bytes": content}), pre.run({"bytes": file_type.ends(content)})
    assert len(file_type.ends(content)) == 8192
    for name, array in whole.items():
        assert np.array_equal(array, both[name])


SHORT = [
    b"", b"a", b"1234567", b"\xff", b"\xc3\xa9", b"\xc3", b" " * 8, b" " * 5000, b"\n" * 9000,
    b" 1234567", b"12345678", b" 12345678", b"\x00" * 8, b" \xff     ", b"        \xff",
    b" " * 4095 + b"\xc3\xa9", b" " * 4094 + b"\xc3\xa9", b" " * 4096 + b"\xff" * 5000,
]  # fmt: skip


@pytest.mark.parametrize("content", SHORT, ids=range(len(SHORT)))
def test_short_files_are_judged_without_the_model(
    pre: Session, reference: magika.Magika, content: bytes
) -> None:
    result, _ = reference._get_result_or_features_from_seekable(Seekable(io.BytesIO(content)))
    rule = int(pre.run({"bytes": np.frombuffer(content, np.uint8)})["rule"][0])
    if result is None:
        assert rule == -1
    else:
        assert _rules()[1][rule] == str(result.prediction.output.label)


def _post(mode: str) -> tuple[Session, list[str]]:
    rules, labels = _rules(mode)
    model = filetype_post(rules, OUTPUT)
    onnx.checker.check_model(ir.to_proto(model), full_check=True)
    return Session(model), labels


def _judge(session: Session, scores: Array, rule: int = -1) -> Tensors:
    return session.run({"probabilities": scores[None], "rule": np.array([rule])})


@pytest.mark.parametrize("mode", MODES)
def test_every_class_at_every_threshold(mode: str) -> None:
    """Scores just below, at and above the thresholds, most of which aren't float32 numbers."""
    reference = magika.Magika(prediction_mode=MODES[mode])
    session, labels = _post(mode)
    edges = [np.float32(t) for t in (0.5, 0.75, 0.9, 0.95)]
    edges = [e + s * np.spacing(e) for e in edges for s in (-1, 0, 1)] + [np.float32(0.3)]
    for number in range(214):
        for score in edges:
            scores = np.full(214, 1e-4, np.float32)
            scores[number] = score
            got = _judge(session, scores)
            wanted, _ = reference._get_output_label_from_dl_label_and_score(
                ContentTypeLabel(labels[number]), float(score)
            )
            assert labels[int(got["classes"][0])] == str(wanted), (labels[number], score)
            assert got["scores"][0] == score


def test_the_models_other_classes_follow_the_answer() -> None:
    session, labels = _post("high-confidence")
    scores = np.zeros(214, np.float32)
    for label, score in {"python": 0.6, "rst": 0.2, "txt": 0.1, "c": 0.05, "go": 0.03}.items():
        scores[labels.index(label)] = score
    got = _judge(session, scores)
    assert [labels[int(c)] for c in got["classes"]] == ["python", "rst", "txt", "c", "go"]
    np.testing.assert_array_equal(got["scores"], np.array([0.6, 0.2, 0.1, 0.05, 0.03], "f4"))


def test_a_class_that_is_not_trusted_comes_second() -> None:
    session, labels = _post("high-confidence")
    scores = np.zeros(214, np.float32)
    for label, score in {"rst": 0.8, "txt": 0.1, "python": 0.05, "go": 0.03, "c": 0.02}.items():
        scores[labels.index(label)] = score
    got = _judge(session, scores)
    assert [labels[int(c)] for c in got["classes"]] == ["txt", "rst", "python", "go", "c"]


def test_a_class_that_stands_for_another_is_not_listed_beside_it() -> None:
    session, labels = _post("high-confidence")
    scores = np.zeros(214, np.float32)
    for label, score in {"randomtxt": 0.8, "txt": 0.1, "python": 0.05, "go": 0.03}.items():
        scores[labels.index(label)] = score
    got = _judge(session, scores)
    shown = [labels[int(c)] for c in got["classes"]]
    assert shown[:3] == ["txt", "python", "go"]
    assert "randomtxt" not in shown


def test_a_rule_gives_one_certain_answer() -> None:
    session, labels = _post("high-confidence")
    got = _judge(session, np.full(214, 1 / 214, np.float32), labels.index("empty"))
    assert got["classes"].tolist() == [labels.index("empty")]
    assert got["scores"].tolist() == [1.0]
