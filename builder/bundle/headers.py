"""The headers that a built site wants from its host, in one place for every kind of host."""

from __future__ import annotations

NO_SNIFFING = {"X-Content-Type-Options": "nosniff"}

ISOLATION = {
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Embedder-Policy": "require-corp",
    "Cross-Origin-Resource-Policy": "same-origin",
}
"""Isolation gives a page shared memory, and so wasm its threads."""

IMMUTABLE = "public, max-age=31536000, immutable"
"""For files that are named by their content: a year is as long as caches go."""

REVALIDATE = "no-cache"
"""For entry points: may be kept, must be asked about."""

CONTENT_NAMED = ("files", "assets")
"""Folders whose files are all named by their content."""

MIME_TYPES = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".mjs": "text/javascript",
    ".json": "application/json",
    ".webmanifest": "application/manifest+json",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".webp": "image/webp",
    ".wasm": "application/wasm",
    ".onnx": "application/octet-stream",
    ".bin": "application/octet-stream",
    ".npy": "application/octet-stream",
    # So that browsers show them.
    ".toml": "text/plain",
    ".md": "text/plain",
    ".py": "text/plain",
    ".ts": "text/plain",
}
"""By the ending. Modules load only with a JavaScript type, and hosts disagree about .mjs."""
