"""The documentation's table of sources is the one that the tests work through."""

from __future__ import annotations

from pathlib import Path

from tests.sources import matrix

DOCS = Path(__file__).resolve().parents[2] / "docs" / "sources.md"


def test_the_table_in_the_docs_is_the_tests_own() -> None:
    assert matrix.table() in DOCS.read_text(encoding="utf-8")
    assert len(list(matrix.rows())) >= 40
