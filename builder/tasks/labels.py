"""Read the names of classes from the files that people have: text, JSON, or a table of names."""

from __future__ import annotations

import json
from pathlib import Path

from builder.errors import UsageError

REMEDY = "Give one label a line, a JSON list, or a JSON object from class number to label."


def read(path: Path, names: Path | None = None) -> tuple[str, ...]:
    """Labels by class number.

    Args:
        path: One label a line; or JSON: a list, or an object whose keys are class numbers.
        names: A table with a tab between label and the name to show instead, one row a line.

    Raises:
        UsageError: Not such a file, or a label that the table doesn't have.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
        labels = _json(json.loads(text)) if path.suffix == ".json" else _lines(text)
        table = _table(names) if names else None
    except (OSError, ValueError) as error:
        raise UsageError(path.name, f"labels can't be read from it ({error})", REMEDY) from error
    if table is None:
        return labels
    missing = sorted({label for label in labels if label not in table})
    if missing and names:
        raise UsageError(
            names.name, f"{len(missing)} labels have no name in it, the first is '{missing[0]}'"
        )
    return tuple(table[label] for label in labels)


def _lines(text: str) -> tuple[str, ...]:
    return tuple(line.strip() for line in text.rstrip().splitlines())


def _json(content: object) -> tuple[str, ...]:
    if isinstance(content, dict):
        numbered = {int(key): str(value) for key, value in content.items()}
        if sorted(numbered) != list(range(len(numbered))):
            raise ValueError(f"class numbers don't run from 0 to {len(numbered) - 1}")
        return tuple(numbered[number] for number in range(len(numbered)))
    if isinstance(content, list) and all(isinstance(label, str) for label in content):
        return tuple(content)
    raise ValueError("neither a list of strings nor an object")


def _table(path: Path) -> dict[str, str]:
    rows = (line.split("\t", 1) for line in path.read_text(encoding="utf-8").splitlines() if line)
    return {row[0].strip(): row[-1].strip() for row in rows}
