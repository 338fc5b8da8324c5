"""Fetch pinned files out of published packages and hubs, by the ordinary clients, into a cache.

`python -m builder.fetch REF…` prints files with their SHA-256, ready to be pinned in a recipe.
"""

from builder.fetch.files import digest, fetch
from builder.fetch.reference import Reference, is_reference, parse
from builder.fetch.source import Located, locate

__all__ = ["Located", "Reference", "digest", "fetch", "is_reference", "locate", "parse"]
