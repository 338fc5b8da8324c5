"""Labels come from the files that people have."""

from __future__ import annotations

from pathlib import Path

import pytest

from builder.errors import UsageError
from builder.tasks import labels


def _file(folder: Path, name: str, content: str) -> Path:
    path = folder / name
    path.write_text(content, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("labels.txt", "cat\ndog, hound\nbird\n"),
        ("windows.txt", "\ufeffcat\r\ndog, hound\r\nbird\r\n\r\n"),
        ("list.json", '["cat", "dog, hound", "bird"]'),
        ("object.json", '{"2": "bird", "0": "cat", "1": "dog, hound"}'),
    ],
)
def test_text_and_json(tmp_path: Path, name: str, content: str) -> None:
    assert labels.read(_file(tmp_path, name, content)) == ("cat", "dog, hound", "bird")


def test_an_empty_line_between_is_a_class_without_a_name(tmp_path: Path) -> None:
    assert labels.read(_file(tmp_path, "labels.txt", "cat\n\nbird\n")) == ("cat", "", "bird")


def test_names_are_looked_up_in_a_table(tmp_path: Path) -> None:
    keys = _file(tmp_path, "keys.txt", "n02\nn01\n")
    table = _file(tmp_path, "table.txt", "n01\ttench, fish\nn02\tcat\nn03\tdog\n")
    assert labels.read(keys, table) == ("cat", "tench, fish")


def test_a_label_without_a_name_is_named(tmp_path: Path) -> None:
    keys, table = (
        _file(tmp_path, "keys.txt", "n01\nn09\n"),
        _file(tmp_path, "t.txt", "n01\ttench\n"),
    )
    with pytest.raises(UsageError, match="'n09'"):
        labels.read(keys, table)


@pytest.mark.parametrize(
    ("content", "why"),
    [('{"0": "cat", "2": "dog"}', "from 0 to 1"), ("[1, 2]", "neither"), ("{", "Expecting")],
)
def test_json_of_another_kind_is_refused(tmp_path: Path, content: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        labels.read(_file(tmp_path, "labels.json", content))


def test_bytes_that_are_not_text_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "labels.txt"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match=r"labels\.txt: labels can't be read"):
        labels.read(path)
