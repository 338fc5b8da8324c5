"""Packs share what variants have in common, and shards fit their limit."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from builder.partition.shards import ALIGNMENT, Pack, Placement, Weight, plan_packs, split

A, B, C = Weight("a", 10), Weight("b", 20), Weight("c", 30)


def test_a_weight_that_two_variants_use_lies_in_one_pack_of_both() -> None:
    packs = plan_packs({"fp32": [A, B], "int8": [A, C]})
    assert packs == [
        Pack(("fp32", "int8"), (Placement("a", 0, 10),), 10),
        Pack(("fp32",), (Placement("b", 0, 20),), 20),
        Pack(("int8",), (Placement("c", 0, 30),), 30),
    ]


def test_offsets_are_aligned() -> None:
    (pack,) = plan_packs({"fp32": [A, B, C]})
    assert [placement.offset for placement in pack.placements] == [0, 16, 48]
    assert pack.size == 78


def test_a_pack_is_closed_at_the_limit_and_a_giant_gets_its_own() -> None:
    giant = Weight("g", 1000)
    packs = plan_packs({"fp32": [A, giant, B]}, limit=64)
    assert [[p.sha256 for p in pack.placements] for pack in packs] == [["a"], ["g"], ["b"]]


def test_a_tied_weight_is_placed_once() -> None:
    (pack,) = plan_packs({"fp32": [A, A, A]})
    assert pack.placements == (Placement("a", 0, 10),)


def test_split_makes_equal_shards() -> None:
    assert split(10, 4) == [(0, 3), (3, 6), (6, 10)]
    assert split(8, 8) == [(0, 8)]
    assert split(0, 8) == [(0, 0)]


weights = st.lists(st.builds(Weight, st.text("abcdefgh", min_size=1), st.just(24)), max_size=12)


@given(st.dictionaries(st.sampled_from(["fp32", "fp16", "int8"]), weights), st.integers(24, 90))
def test_every_weight_is_placed_once_aligned_and_apart(
    variants: dict[str, list[Weight]], limit: int
) -> None:
    packs = plan_packs(variants, limit)
    placed = [place.sha256 for pack in packs for place in pack.placements]
    assert sorted(placed) == sorted({w.sha256 for ws in variants.values() for w in ws})
    for pack in packs:
        end = 0
        for place in pack.placements:
            assert place.offset % ALIGNMENT == 0
            assert place.offset >= end
            end = place.offset + place.size
            used_by = {name for name, ws in variants.items() if Weight(place.sha256, 24) in ws}
            assert used_by == set(pack.users)
        assert end == pack.size <= limit


@given(st.integers(0, 10_000), st.integers(1, 500))
def test_shards_cover_everything_once(size: int, limit: int) -> None:
    shards = split(size, limit)
    assert shards[0][0] == 0
    assert shards[-1][1] == size
    assert all(left[1] == right[0] for left, right in itertools.pairwise(shards))
    assert all(end - start <= limit for start, end in shards)
    assert len(shards) == max(1, -(-size // limit))
