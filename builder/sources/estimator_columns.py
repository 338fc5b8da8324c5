"""What a fitted estimator takes: its columns, of which kind they are, and rows to try it on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from builder.errors import UnsupportedError

ROWS = 64
"""Rows at every one of `SCALES`."""

SCALES = (1.0, 10.0, 100.0)
"""Standard deviations of random numbers: a few thresholds of any tree lie among them."""

NESTED = (
    "steps",
    "transformers_",
    "transformer_list",
    "estimators_",
    "estimator",
    "estimator_",
    "best_estimator_",
    "final_estimator_",
    "calibrated_classifiers_",
)
"""Attributes in which estimators hold others, fitted."""

Kind = Literal["number", "text"]


@dataclass(frozen=True)
class Column:
    """A column, or several of one kind that were fitted without names.

    Attributes:
        name: Of the model's input.
        kind: What is in it.
        width: How many columns it stands for.
        words: Those that the estimator knows, for text.
    """

    name: str
    kind: Kind
    width: int
    words: tuple[str, ...] = ()


def nested(estimator: Any) -> Iterator[Any]:
    """An estimator and all that are inside it, fitted."""
    yield estimator
    for attribute in NESTED:
        held = getattr(estimator, attribute, None)
        for entry in np.ravel(held).tolist() if isinstance(held, np.ndarray) else _listed(held):
            part = entry[1] if isinstance(entry, tuple) else entry
            if hasattr(part, "get_params") or hasattr(part, "calibrators"):
                yield from nested(part)


def _listed(held: Any) -> Sequence[Any]:
    return held if isinstance(held, (list, tuple)) else [] if held is None else [held]


def columns_of(estimator: Any) -> list[Column]:
    """The inputs of an estimator: one for each column with a name, else one for all.

    Raises:
        UnsupportedError: It takes text apart, for which the web runtime has nothing.
        ValueError: It wasn't fitted, or doesn't say on how many columns.
    """
    for part in nested(estimator):
        if hasattr(part, "vocabulary_") or hasattr(part, "build_analyzer"):
            raise UnsupportedError(
                f"step {type(part).__name__}",
                "it splits text into words, and the web runtime has no strings",
                "Keep it outside, and give the model what it makes. Categories are fine.",
            )
    names = [str(name) for name in getattr(estimator, "feature_names_in_", [])]
    count = len(names) or int(getattr(estimator, "n_features_in_", 0))
    if not count:
        raise ValueError("it doesn't say how many columns it was fitted on; was it fitted?")
    words = _words(estimator, names or [str(index) for index in range(count)])
    if names:
        return [
            Column(name, "text" if name in words else "number", 1, words.get(name, ()))
            for name in names
        ]
    if words:
        every = tuple(sorted({word for entry in words.values() for word in entry}))
        return [Column("input", "text", count, every)]
    return [Column("input", "number", count)]


def _words(estimator: Any, names: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """The words that columns of text may hold, by column, where the first step says so."""
    if hasattr(estimator, "best_estimator_"):
        return _words(estimator.best_estimator_, names)
    if hasattr(estimator, "steps"):
        found: dict[str, tuple[str, ...]] = {}
        for _, step in estimator.steps:
            for name, known in _words(step, names).items():
                found.setdefault(name, known)
            if not _keeps_columns(step):
                break
        return found
    if hasattr(estimator, "transformers_"):
        found = {}
        for _, part, chosen in estimator.transformers_:
            if part == "drop" or part == "passthrough":
                continue
            found |= _words(part, _chosen(estimator, chosen, names))
        return found
    if hasattr(estimator, "transformer_list"):
        found = {}
        for _, part in estimator.transformer_list:
            found |= _words(part, names)
        return found
    if hasattr(estimator, "categories_"):
        pairs = zip(names, estimator.categories_, strict=False)
        return {name: _strings(entry) for name, entry in pairs if _strings(entry)}
    if hasattr(estimator, "statistics_"):
        pairs = zip(names, estimator.statistics_, strict=False)
        return {name: (entry,) for name, entry in pairs if isinstance(entry, str)}
    return {}


def takes_missing(estimator: Any) -> bool:
    """Whether NaN means something to an estimator: it fills it in, or has learnt where it goes.

    Trees of scikit-learn take it too, but only those that saw some in training know what to do.
    """
    return any(
        hasattr(part, "statistics_")
        or hasattr(part, "_bin_mapper")
        or type(part).__module__.startswith(("lightgbm", "xgboost"))
        for part in nested(estimator)
    )


def _keeps_columns(step: Any) -> bool:
    return hasattr(step, "statistics_") or step == "passthrough"


def _strings(categories: Any) -> tuple[str, ...]:
    return tuple(word for word in categories if isinstance(word, str))


def _chosen(estimator: Any, chosen: Any, names: Sequence[str]) -> list[str]:
    """Names of the columns that a part of a ColumnTransformer gets."""
    if isinstance(chosen, slice):
        return list(names[chosen])
    picked = [chosen] if isinstance(chosen, (str, int)) else list(chosen)
    if picked and isinstance(picked[0], (bool, np.bool_)):
        return [name for name, taken in zip(names, picked, strict=True) if taken]
    return [entry if isinstance(entry, str) else names[int(entry)] for entry in picked]


def rows(columns: Sequence[Column], *, missing: bool) -> dict[str, npt.NDArray[Any]]:
    """Rows to try an estimator on: f32 or strings [rows, width] by column.

    Numbers are normal at several scales, with zeros among them, and NaN if `missing`; every fourth
    word isn't known.
    """
    count = ROWS * len(SCALES)
    scale = np.repeat(SCALES, ROWS)[:, None]
    made: dict[str, npt.NDArray[Any]] = {}
    for index, column in enumerate(columns):
        rng = np.random.default_rng([0, index])
        shape = (count, column.width)
        if column.kind == "text":
            drawn = rng.integers(0, len(column.words), shape)
            words = np.array(column.words, object)[drawn]
            words[rng.random(shape) < 0.25] = "(not known)"
            made[column.name] = words
            continue
        numbers = (rng.standard_normal(shape) * scale).astype(np.float32)
        numbers[:: ROWS // 2] = 0
        if missing:
            numbers[rng.random(shape) < 0.1] = np.nan
        made[column.name] = numbers
    return made
