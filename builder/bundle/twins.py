"""Gzip twins that the page asks for by name and inflates itself, on hosts that send files as they
are: hardly any host compresses bytes without a media type of their own.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from builder.bundle.compress import WORTH, compress_tree
from builder.bundle.hosts import HostProfile

ENDING = ".gz"

INFLATED = (".bin", ".onnx")
"""What the runtime fetches as bytes. Scripts are imported by their address, as the host sends
them."""

SAVING = 0.9
"""A twin is asked for if it is at most this share of the original: inflating takes time."""


def write(folder: Path, profile: HostProfile) -> None:
    """Write the twins of content-named files that `profile` has a use for.

    Args:
        folder: The `files/` folder of a site.
        profile: The host. One that sends precompressed files gets all twins that gain anything;
            one that compresses text itself gets those that the page asks for.

    Raises:
        OSError: A twin can't be written.
    """
    if profile.compresses:
        compress_tree(folder, suffixes=INFLATED, endings=(ENDING,), worth=SAVING)
    else:
        compress_tree(folder, worth=WORTH)


def noted(content: Any, root: Path) -> Any:
    """A manifest's content with the size of the twin at every file that has one worth asking for.

    Args:
        content: A manifest, or a part of it.
        root: The site's root, twins written.
    """
    if isinstance(content, list):
        return [noted(entry, root) for entry in content]
    if not isinstance(content, dict):
        return content
    entry = {key: noted(value, root) for key, value in content.items()}
    if {"path", "size", "sha256"} <= entry.keys() and entry["path"].endswith(INFLATED):
        twin = root / f"{entry['path']}{ENDING}"
        if twin.is_file() and twin.stat().st_size <= SAVING * entry["size"]:
            entry["gzip"] = twin.stat().st_size
    return entry
