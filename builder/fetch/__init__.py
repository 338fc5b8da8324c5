"""Fetch pinned files out of published packages and hubs, by the ordinary clients, into a cache.

`python -m builder.fetch REF…` prints files with their SHA-256, ready to be pinned in a recipe.
"""

from builder.fetch.files import digest, fetch
from builder.fetch.reference import Reference, parse

__all__ = ["Reference", "digest", "fetch", "parse"]
