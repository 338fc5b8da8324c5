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

PAGE_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "worker-src 'self'",
        "connect-src 'self'",
        "style-src 'self'",
        # Pictures that visitors give, and results that are drawn of them.
        "img-src 'self' blob: data:",
        "media-src 'self' blob:",
        "manifest-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "require-trusted-types-for 'script'",
        # Of the runtime module, and of the pages around it.
        "trusted-types onnxsite onnxsite-page",
    )
)
"""Content-Security-Policy of every page that has scripts. The page carries it itself, so that it
holds on hosts that send no headers. A worker has the policy of its own response."""

WORKER_POLICY = "; ".join(
    (
        "default-src 'none'",
        # The runtime's builds for WebGPU make functions of text. Nothing here has a page to change.
        "script-src 'self' 'wasm-unsafe-eval' 'unsafe-eval'",
        "worker-src 'self'",
        "connect-src 'self'",
    )
)
"""Content-Security-Policy of the worker that runs the model, on hosts that send headers."""

WORKER_NAME = "worker.js"
"""The worker's logical name among the assets; its file is `assets/worker-<hash>.js`."""

ENTRY_POINTS = (
    "",
    "index.html",
    "404.html",
    "onnxsite.js",
    "site.webmanifest",
    "sw.js",
    "models/*",
)
"""Everything that keeps its name while its content changes; the root is the empty name."""

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
