"""What makes a site work without a connection: the service worker and the web app manifest."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from builder.bundle.integrity import integrity
from builder.bundle.manifest import dumps
from builder.plan import Plan
from builder.webruntime.vendored import web

if TYPE_CHECKING:
    from builder.bundle import _manifest as types

SERVICE_WORKER = "sw.js"
APP_MANIFEST = "site.webmanifest"

SHELL = ("index.html", "404.html", "onnxsite.js", APP_MANIFEST, "assets/*", "assets/icons/*")
MODEL_SHELL = ("models/*/index.html", "models/*/manifest.json")
"""What a visit needs before any model; patterns below the site's root."""

GROUND = "#fbfbf9"
"""The pages' ground in daylight, as style.css has it."""


def write(root: Path, plan: Plan, manifests: Sequence[types.Manifest]) -> None:
    """Write `site.webmanifest` and, after everything that it lists, `sw.js`.

    Args:
        root: The site's root with all of its pages and assets, without twins.
        plan: Title, and whether the site has a service worker; one that hasn't gets a script that
            removes what an earlier build has left in browsers.
        manifests: Of every model.
    """
    (root / APP_MANIFEST).write_bytes(dumps(_app_manifest(plan.title)))
    site = _site(root, manifests) if plan.offline else None
    text = f"const SITE = {json.dumps(site, separators=(',', ':'))};\n{web().service_worker}"
    (root / SERVICE_WORKER).write_text(text, encoding="utf-8")


def _app_manifest(title: str) -> dict[str, object]:
    icon = web().assets["icons/favicon.svg"]
    return {
        "name": title,
        "short_name": title,
        "id": "./",
        "start_url": "./",
        "scope": "./",
        "display": "standalone",
        "background_color": GROUND,
        "theme_color": GROUND,
        "icons": [{"src": icon, "sizes": "any", "type": "image/svg+xml"}],
    }


def _site(root: Path, manifests: Sequence[types.Manifest]) -> dict[str, object]:
    shell = [
        # Hosts redirect from index.html to its folder, so that pages go by the folder's name.
        [
            path.relative_to(root).as_posix().removesuffix("index.html"),
            integrity(path.read_bytes()),
        ]
        for pattern in (*SHELL, *MODEL_SHELL)
        for path in sorted(root.glob(pattern))
        if path.is_file()
    ]
    files = sorted({file["path"] for manifest in manifests for file in _small_files(manifest)})
    described = json.dumps([shell, files, web().service_worker])
    version = hashlib.sha256(described.encode()).hexdigest()[:16]
    return {"version": version, "shell": shell, "files": files}


def _small_files(manifest: types.Manifest) -> Iterator[types.File]:
    """What the runtime doesn't keep by itself, or pages ask for by its address."""
    for flavour in manifest["runtime"]["flavours"]:
        yield flavour["api"]
        yield flavour["glue"]
    for sample in manifest["samples"]:
        yield sample["file"]
        if "thumbnail" in sample:
            yield sample["thumbnail"]
    for reference in manifest["references"]:
        yield reference["file"]
