"""Subresource Integrity: what browsers hold a file against before they use it."""

from __future__ import annotations

import base64
import hashlib


def integrity(content: bytes) -> str:
    """SHA-384 of `content` as the `integrity` attribute and `fetch` take it."""
    return f"sha384-{base64.b64encode(hashlib.sha384(content).digest()).decode()}"
