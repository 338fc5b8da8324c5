"""Plan which weights lie in which file, so that variants share what they have in common.

Pure: no file is read or written here. A *pack* is what a graph's external data points into; a
*shard* is a slice of a pack that fits every host. Weights are identified by the SHA-256 of their
bytes, and two weights lie in one pack only if the very same variants use both: a visitor who takes
one variant then never downloads a byte of another.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

SHARD_BYTES = 8 * 1024 * 1024
"""Default shard size: below every known host's limit, and enough files to load in parallel."""

ALIGNMENT = 16
"""Bytes: wasm SIMD loads and WebGPU buffer copies start at such an offset."""


@dataclass(frozen=True)
class Weight:
    """Bytes that some variants use, named by content."""

    sha256: str
    size: int


@dataclass(frozen=True)
class Placement:
    """Where a weight lies: offset in bytes from the start of its pack."""

    sha256: str
    offset: int
    size: int


@dataclass(frozen=True)
class Pack:
    """Weights that the same variants use, laid end to end.

    Attributes:
        users: The variants that need this pack.
        placements: In the order of first use.
        size: Bytes, padding included.
    """

    users: tuple[str, ...]
    placements: tuple[Placement, ...]
    size: int


def plan_packs(variants: Mapping[str, Sequence[Weight]], limit: int = SHARD_BYTES) -> list[Pack]:
    """Place every distinct weight exactly once.

    Args:
        variants: The weights of each variant, in the order in which its graph holds them.
        limit: A pack is closed when the next weight would take it beyond this many bytes; a
            weight that is bigger by itself gets a pack of its own, to be cut into shards.

    Returns:
        Packs in the order of first use; the same input always gives the same plan.
    """
    users: dict[str, list[str]] = {}
    sizes: dict[str, int] = {}
    for variant, weights in variants.items():
        for weight in weights:
            sizes.setdefault(weight.sha256, weight.size)
            sharers = users.setdefault(weight.sha256, [])
            if variant not in sharers:
                sharers.append(variant)
    groups: dict[tuple[str, ...], list[str]] = {}
    for sha256, sharers in users.items():
        groups.setdefault(tuple(sharers), []).append(sha256)
    return [
        pack
        for sharers, members in groups.items()
        for pack in _fill(sharers, members, sizes, limit)
    ]


def _fill(
    users: tuple[str, ...], members: Sequence[str], sizes: Mapping[str, int], limit: int
) -> Iterator[Pack]:
    placed: list[Placement] = []
    end = 0
    for sha256 in members:
        offset = -(-end // ALIGNMENT) * ALIGNMENT
        if placed and offset + sizes[sha256] > limit:
            yield Pack(users, tuple(placed), end)
            placed, offset = [], 0
        placed.append(Placement(sha256, offset, sizes[sha256]))
        end = offset + sizes[sha256]
    if placed:
        yield Pack(users, tuple(placed), end)


def split(size: int, limit: int = SHARD_BYTES) -> list[tuple[int, int]]:
    """Cut `size` bytes into the fewest shards of nearly equal size: (start, end) of each.

    Equal shards finish together when they are fetched in parallel; a small last one would not.
    """
    count = max(1, -(-size // limit))
    edges = [size * index // count for index in range(count + 1)]
    return list(itertools.pairwise(edges))
