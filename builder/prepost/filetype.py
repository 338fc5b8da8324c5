"""A file's bytes to Magika's features, and its scores to the answer its own rules would give.

Follows the reference implementation (`magika/magika.py` of the `magika` package, version 1.0.3):
`_extract_features_from_seekable`, `_get_result_or_features_from_seekable` and
`_get_output_label_from_dl_label_and_score`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from builder.model import Array, TensorSpec
from builder.prepost.draft import Draft, Operand
from builder.prepost.utf8 import is_utf8

BLANKS = b" \t\n\r\x0b\x0c"
"""What Python's `bytes.strip` removes."""

BY_MODEL = -1
"""The rule that lets the model decide."""

TOP = 5
"""Answers given for a file that the model has judged."""

AXIS = np.array([0])
ZERO = np.array([0])


@dataclass(frozen=True)
class FileTypeRules:
    """What surrounds the model: sizes, and what becomes of each of its classes.

    Classes from the model's own count on are those that only the rules give.

    Attributes:
        begin: Features from the start of the file.
        end: Features from its end.
        block: Bytes looked at on either side.
        padding: Feature where there is no byte.
        minimum: Files with fewer bytes, or fewer after leading blanks, aren't shown to the model.
        answers: Class that a trusted class stands for, one per class of the model.
        fallbacks: Class given instead of one that isn't trusted, one per class of the model.
        thresholds: Score from which a class is trusted, one per class of the model.
        text: Class of short files that are valid UTF-8.
        unknown: Class of short files that aren't.
        empty: Class of files without a byte.
    """

    begin: int
    end: int
    block: int
    padding: int
    minimum: int
    answers: tuple[int, ...]
    fallbacks: tuple[int, ...]
    thresholds: tuple[float, ...]
    text: int
    unknown: int
    empty: int


def filetype_pre(
    rules: FileTypeRules, features: TensorSpec, *, name: str = "bytes", rule_name: str = "rule"
) -> ir.Model:
    """Build the graph: `name` u8[length] to the model's features and `rule_name` i64[1].

    The features are the first bytes after leading blanks, and the last ones before trailing
    blanks. The rule is the class of a file that is too short for the model, else `BY_MODEL`.
    Only the first and last `block` bytes matter, so a caller may leave out those between.

    Args:
        rules: Sizes and classes.
        features: The model's own input.
        name: Of the graph's input.
        rule_name: Of the second output.
    """
    g = Draft("filetype_pre")
    content = g.input(
        name,
        "uint8",
        ["length"],
        description=f"The file; of a long one, the first and last {rules.block} bytes are enough.",
    )
    length = g.add("Shape", content, name="length")
    read = g.add("Min", length, np.array([rules.block]), name="read_length")
    tail = g.add("Sub", length, read, name="tail_begin")
    first = _int32(g, g.add("Slice", content, ZERO, read, AXIS, name="first_block"), "first")
    last = _int32(g, g.add("Slice", content, tail, length, AXIS, name="last_block"), "last")

    # Each sentinel stands for "not a blank to be found": then nothing but padding is left.
    ink = np.array([byte not in BLANKS for byte in range(256)], np.int32)
    sentinel = np.array([1], np.int32)
    inked = g.add("Gather", ink, first, name="first_ink")
    inked = g.add("Concat", inked, sentinel, axis=0, name="first_ink_or_end")
    start = g.add("ArgMax", inked, axis=0, keepdims=1, name="first_start")
    begin = _window(g, [first, _padding(rules, rules.begin)], start, rules.begin, "begin")

    inked = g.add("Gather", ink, last, name="last_ink")
    inked = g.add("Concat", sentinel, inked, axis=0, name="last_ink_or_begin")
    stop = g.add("ArgMax", inked, axis=0, keepdims=1, select_last_index=1, name="last_stop")
    end = _window(g, [_padding(rules, rules.end), last], stop, rules.end, "end")

    joined = g.add("Concat", begin, end, axis=0, name="features_row")
    row = g.add("Unsqueeze", joined, np.array([0]), name="features")
    if features.dtype != "int32":
        to = ir.DataType.from_numpy(np.dtype(features.dtype))
        row = g.add("Cast", row, to=to, name="typed_features")
    rule = _rule(g, rules, length, first, begin)
    g.output(row, features.name, features.dtype, [1, rules.begin + rules.end])
    g.output(
        rule,
        rule_name,
        "int64",
        [1],
        description="Class of a file too short for the model, or -1.",
    )
    return g.model()


def _int32(g: Draft, content: ir.Value, name: str) -> ir.Value:
    return g.add("Cast", content, to=ir.DataType.INT32, name=f"{name}_bytes")


def _padding(rules: FileTypeRules, count: int) -> Array:
    return np.full(count, rules.padding, np.int32)


def _window(g: Draft, parts: list[Operand], start: ir.Value, count: int, name: str) -> ir.Value:
    padded = g.add("Concat", *parts, axis=0, name=f"{name}_padded")
    stop = g.add("Add", start, np.array([count]), name=f"{name}_window_stop")
    return g.add("Slice", padded, start, stop, AXIS, name=f"{name}_features")


def _rule(
    g: Draft, rules: FileTypeRules, length: ir.Value, first: ir.Value, begin: ir.Value
) -> ir.Value:
    """The class of an empty or short file i64[1], or `BY_MODEL`.

    A file as short as `minimum` bytes once leading blanks are gone has padding in the feature
    before that; a file of fewer bytes has it there as well, so one test finds both.
    """
    place = np.array([rules.minimum - 1])
    marker = g.add("Gather", begin, place, axis=0, name="marker")
    short = g.add("Equal", marker, np.array([rules.padding], np.int32), name="is_short")
    empty = g.add("Equal", length, ZERO, name="is_empty")
    text = g.add(
        "Where", is_utf8(g, first), np.array([rules.text]), np.array([rules.unknown]), name="kind"
    )
    rule = g.add("Where", short, text, np.array([BY_MODEL]), name="rule_short")
    return g.add("Where", empty, np.array([rules.empty]), rule, name="rule_all")


def filetype_post(
    rules: FileTypeRules,
    probabilities: TensorSpec,
    *,
    rule_name: str = "rule",
    scores_name: str = "scores",
    classes_name: str = "classes",
) -> ir.Model:
    """Build the graph: probabilities f32[1,n] and the rule to `scores` f32[k], `classes` i64[k].

    The first row is the answer that the reference implementation gives. For a file too short for
    the model it's the only one. Otherwise the model's best other classes follow, k is 5, and where
    the answer is a fallback the class that wasn't trusted comes second with the same score.

    Args:
        rules: Thresholds and classes.
        probabilities: The model's own output.
        rule_name: Of the input for the rule i64[1].
        scores_name: Of the first output.
        classes_name: Of the second output.
    """
    g = Draft("filetype_post")
    given = g.input(probabilities.name, probabilities.dtype, probabilities.shape)
    rule = g.input(rule_name, "int64", [1])
    scores = g.add("Reshape", given, np.array([-1]), name="per_class")
    if probabilities.dtype != "float32":
        scores = g.add("Cast", scores, to=ir.DataType.FLOAT, name="float_scores")
    best, index = g.add_many("TopK", scores, np.array([1]), outputs=2, name="best")

    limit = g.add("Gather", _not_below(rules.thresholds), index, name="threshold")
    trusted = g.add("GreaterOrEqual", best, limit, name="trusted")
    answer = g.add("Gather", np.array(rules.answers), index, name="trusted_answer")
    fallback = g.add("Gather", np.array(rules.fallbacks), index, name="fallback")
    answer = g.add("Where", trusted, answer, fallback, name="answer_of_model")

    ruled = g.add("GreaterOrEqual", rule, ZERO, name="ruled")
    answer = g.add("Where", ruled, rule, answer, name="answer")
    score = g.add("Where", ruled, np.array([1], np.float32), best, name="answer_score")

    # The answer isn't to be listed twice, nor the class that a trusted answer stands for.
    classes = len(rules.answers)
    numbers = np.arange(classes)
    listed = g.add("Equal", numbers, answer, name="is_answer")
    stands_for = g.add("Equal", numbers, index, name="is_best")
    stands_for = g.add("And", stands_for, trusted, name="is_trusted_best")
    listed = g.add("Or", listed, stands_for, name="is_listed")
    others = g.add("Where", listed, np.array([-1], np.float32), scores, name="others")
    other, other_index = g.add_many(
        "TopK", others, np.array([TOP - 1]), outputs=2, name="best_others"
    )
    all_scores = g.add("Concat", score, other, axis=0, name="ranked_scores")
    all_classes = g.add("Concat", answer, other_index, axis=0, name="ranked_classes")
    rows = g.add("Where", ruled, np.array([1]), np.array([TOP]), name="rows")
    g.output(
        g.add("Slice", all_scores, ZERO, rows, AXIS, name="shown_scores"),
        scores_name,
        "float32",
        ["k"],
        description="How sure the model is of each class; 1 where a rule decides without it.",
    )
    g.output(
        g.add("Slice", all_classes, ZERO, rows, AXIS, name="shown_classes"),
        classes_name,
        "int64",
        ["k"],
        description="Numbers of the classes, the answer first: places in the list of labels.",
    )
    return g.model()


def _not_below(thresholds: tuple[float, ...]) -> Array:
    """The least float32 not below each threshold: the reference compares in float64."""
    exact = np.array(thresholds)
    single = exact.astype(np.float32)
    up = np.nextafter(single, np.float32(np.inf))
    return np.where(single.astype(np.float64) < exact, up, single)
