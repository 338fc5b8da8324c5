"""File type with Magika: the bytes of a file to the five likeliest content types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, RootModel, ValidationError

from builder.errors import UsageError
from builder.model import Model, Tensors
from builder.prepost.draft import free_name
from builder.prepost.filetype import FileTypeRules, filetype_post, filetype_pre
from builder.tasks.run import interface
from builder.tasks.task import Options, Stages, Task, choose, need_file, parse, taken_names

NAME = "file-type"

Content = npt.NDArray[np.uint8]

BLOCK = 4096
"""Bytes at either end of a file that Magika looks at (`block_size` of its configuration)."""

SLICES = 48
"""Least number of files for the accuracy gate: one wrong top answer is then 2 %."""

PROBE_LENGTH = 1024
"""Bytes of a probe: as many as the model sees of a file's start."""

REMEDY = "Use the files that belong to a standard_v3 model."


class FileTypeOptions(Options):
    """Keys of `[models.options]`.

    Attributes:
        config: Name of the file with Magika's `config.min.json`, under `[models.files]`.
        content_types: Name of the file with its `content_types_kb.min.json`.
        mode: When a class is trusted, as in Magika: `high-confidence` asks for the threshold of
            that class, `medium-confidence` for one threshold, `best-guess` for nothing.
    """

    config: str = "config"
    content_types: str = "content_types"
    mode: Literal["high-confidence", "medium-confidence", "best-guess"] = "high-confidence"


class Config(BaseModel):
    """What is read of Magika's model configuration."""

    beg_size: int
    mid_size: Literal[0]
    end_size: int
    use_inputs_at_offsets: Literal[False]
    medium_confidence_threshold: float
    min_file_size_for_dl: int
    padding_token: int
    block_size: int
    target_labels_space: list[str]
    thresholds: dict[str, float]
    overwrite_map: dict[str, str]


class Kind(BaseModel):
    """What is read of Magika's knowledge of one content type."""

    is_text: bool


class Kinds(RootModel[dict[str, Kind]]):
    """Magika's knowledge of all content types."""


CheckedT = TypeVar("CheckedT", Config, Kinds)


def build(model: Model, options: Mapping[str, Any], files: Mapping[str, Path]) -> Stages:
    """Put Magika's features and rules around its model.

    Raises:
        UsageError: Options that are unknown or wrong, a configuration that is missing, can't be
            read, or doesn't fit the model.
    """
    chosen = parse(FileTypeOptions, options, NAME)
    path = need_file(files, chosen.config, "Magika's classes and thresholds are in it")
    kinds_path = need_file(files, chosen.content_types, "it says which types are text")
    table, labels = rules(path, kinds_path, chosen.mode)
    features = choose(model.signature.inputs, None, "feature input", 2)
    probabilities = choose(model.signature.outputs, None, "score output", 2)
    expected = {features.name: table.begin + table.end}
    expected[probabilities.name] = len(table.answers)
    for spec in (features, probabilities):
        if spec.shape[1] != expected[spec.name]:
            raise UsageError(
                path.name,
                f"it tells of {expected[spec.name]} columns in '{spec.name}', which has the shape "
                f"{list(spec.shape)}",
                "Use the configuration that belongs to the model.",
            )
    taken = taken_names(model)
    content, rule = free_name("bytes", taken, "raw_"), free_name("rule", taken, "file_")
    pre = filetype_pre(table, features, name=content, rule_name=rule)
    post = filetype_post(
        table,
        probabilities,
        rule_name=rule,
        scores_name=free_name("scores", taken, "top_"),
        classes_name=free_name("classes", taken, "top_"),
    )

    def evaluation(samples: Sequence[Tensors], seed: int) -> list[Tensors]:
        if not samples:
            model.event(
                "warning", "evaluation", "no samples: accuracy is measured on made-up files"
            )
        given = [np.asarray(sample[content], np.uint8) for sample in samples]
        return [{content: part} for part in slices(given, seed)]

    def probe(samples: Sequence[Tensors]) -> Tensors:
        first = np.asarray(samples[0][content], np.uint8) if samples else synthetic(0)
        return {content: first[:PROBE_LENGTH].copy()}

    return Stages(
        pre,
        post,
        tuple(labels),
        interface(pre, model.signature, post),
        lambda path: {content: read(path)},
        evaluation,
        probe,
    )


def read(path: Path) -> Content:
    """A file's bytes; of one over 8192 bytes the first and last 4096, which give the same answer.

    Raises:
        UsageError: The file can't be read.
    """
    try:
        return ends(np.frombuffer(path.read_bytes(), np.uint8))
    except OSError as error:
        raise UsageError(path.name, f"it can't be read ({error})") from error


def ends(content: Content) -> Content:
    """The first and last 4096 bytes, or everything where there is no more."""
    if len(content) <= 2 * BLOCK:
        return content.copy()
    return np.concatenate([content[:BLOCK], content[-BLOCK:]])


def slices(contents: Sequence[Content], seed: int) -> list[Content]:
    """The files, then random parts of them (16 bytes or more), `SLICES` or more in all.

    Half the parts begin where the file begins, since that is what tells binary formats apart.
    Without files, made-up ones.
    """
    rng = np.random.default_rng(seed)
    if not contents:
        return [synthetic(int(rng.integers(1 << 31))) for _ in range(SLICES)]
    result = list(contents)
    while len(result) < SLICES:
        content = contents[len(result) % len(contents)]
        length = int(rng.integers(min(16, len(content)), len(content) + 1))
        begin = int(rng.integers(0, len(content) - length + 1)) * int(rng.integers(0, 2))
        result.append(content[begin : begin + length].copy())
    return result


def synthetic(seed: int) -> Content:
    """A made-up file: lines of random letters and digits."""
    rng = np.random.default_rng(seed)
    alphabet = np.frombuffer(b"abcdefghijklmnopqrstuvwxyz0123456789  \n,;={}()", np.uint8)
    return rng.choice(alphabet, int(rng.integers(64, 2 * BLOCK)))


def rules(config_path: Path, kinds_path: Path, mode: str) -> tuple[FileTypeRules, list[str]]:
    """Tables by class from Magika's tables by name, and the names.

    Args:
        config_path: Magika's `config.min.json`.
        kinds_path: Magika's `content_types_kb.min.json`.
        mode: As in `FileTypeOptions`.

    Returns:
        The tables, and the labels: the model's own and those that only the rules give.

    Raises:
        UsageError: A file that can't be read or isn't what it should be.
    """
    config = _checked(config_path, Config)
    kinds = _checked(kinds_path, Kinds).root
    own = config.target_labels_space
    labels = [*own, *(name for name in ("txt", "unknown", "empty") if name not in own)]
    number = {label: place for place, label in enumerate(labels)}
    answers = [config.overwrite_map.get(label, label) for label in own]
    unheard = sorted(set(answers) - set(kinds))
    if unheard:
        raise UsageError(kinds_path.name, f"it doesn't know {', '.join(unheard)}", REMEDY)
    medium = config.medium_confidence_threshold
    thresholds = {
        "high-confidence": [config.thresholds.get(label, medium) for label in own],
        "medium-confidence": [medium] * len(own),
        "best-guess": [0.0] * len(own),
    }[mode]
    table = FileTypeRules(
        begin=config.beg_size,
        end=config.end_size,
        block=config.block_size,
        padding=config.padding_token,
        minimum=config.min_file_size_for_dl,
        answers=tuple(number[answer] for answer in answers),
        fallbacks=tuple(number["txt" if kinds[a].is_text else "unknown"] for a in answers),
        thresholds=tuple(thresholds),
        text=number["txt"],
        unknown=number["unknown"],
        empty=number["empty"],
    )
    return table, labels


def _checked(path: Path, kind: type[CheckedT]) -> CheckedT:
    try:
        return kind.model_validate_json(path.read_bytes())
    except OSError as error:
        raise UsageError(path.name, f"it can't be read ({error})") from error
    except ValidationError as error:
        faults = "; ".join(
            f"{'.'.join(map(str, fault['loc'])) or 'file'}: {fault['msg']}"
            for fault in error.errors()[:3]
        )
        raise UsageError(path.name, f"it isn't what was expected ({faults})", REMEDY) from error


TASK = Task(NAME, "File type", "top1", build)
