"""The graph finds bytes valid exactly where Python's strict decoder does."""

from __future__ import annotations

import random

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from builder.prepost.draft import Draft
from builder.prepost.utf8 import is_utf8
from builder.session import Session

EDGES = [0, 0x41, 0x7F, 0x80, 0x7FF, 0x800, 0xD7FF, 0xE000, 0xFFFF, 0x10000, 0x10FFFF]
GOOD = [chr(code).encode() for code in EDGES]
BAD = [
    b"\xed\xa0\x80",  # a surrogate
    b"\xed\xbf\xbf",
    b"\xf4\x90\x80\x80",  # beyond U+10FFFF
    b"\xc0\x80",  # overlong forms of NUL
    b"\xc1\xbf",
    b"\xe0\x80\x80",
    b"\xf0\x80\x80\x80",
    b"\x80",  # nothing to continue
    b"\xbf\x41",
    b"\xf5\x80\x80\x80",
    b"\xff",
    b"\xe2\x82\x41",
]


@pytest.fixture(scope="module")
def session() -> Session:
    g = Draft("utf8")
    g.output(is_utf8(g, g.input("x", "int32", ["n"])), "valid", "bool", [1])
    model = g.model()
    onnx.checker.check_model(ir.to_proto(model), full_check=True)
    return Session(model)


def _valid(content: bytes) -> bool:
    try:
        content.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _check(session: Session, contents: list[bytes]) -> None:
    for content in contents:
        got = session.run({"x": np.frombuffer(content, np.uint8).astype(np.int32)})["valid"]
        assert bool(got[0]) == _valid(content), content


def test_every_byte_alone_and_every_pair_with_an_edge(session: Session) -> None:
    alone = [bytes([byte]) for byte in range(256)]
    _check(session, [b"", *alone, *(lead + good for lead in alone[0xBE:] for good in GOOD)])


def test_every_second_byte_after_the_leads_with_rules_of_their_own(session: Session) -> None:
    leads = {0xE0: b"\x80", 0xED: b"\x80", 0xF0: b"\x80\x80", 0xF4: b"\x80\x80"}
    _check(session, [bytes([lead, b]) + rest for lead, rest in leads.items() for b in range(256)])


def test_edges_of_the_code_space_whole_and_cut_off(session: Session) -> None:
    cut = [text[:end] for text in GOOD for end in range(1, len(text))]
    _check(session, GOOD + BAD + cut + [b"a" + part for part in cut] + [bad + b"z" for bad in BAD])


def test_random_texts_with_and_without_a_flipped_bit(session: Session) -> None:
    rng = random.Random(7)
    contents = []
    for number in range(400):
        content = bytearray(b"".join(rng.choices(GOOD, k=rng.randrange(1, 7))))
        if number % 2:
            content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
        contents.append(bytes(content))
    _check(session, contents)
