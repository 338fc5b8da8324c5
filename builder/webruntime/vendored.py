"""The compiled `web/` folder and the pinned onnxruntime-web that lies in it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, cast

from builder.bundle.integrity import integrity
from builder.bundle.store import Store
from builder.errors import UsageError

if TYPE_CHECKING:
    from builder.bundle import _manifest as types

PACKAGE = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Web:
    """What `web/build.mjs` made.

    Attributes:
        root: The folder that holds it.
        assets: Logical name (`style`, `model`, `icons/favicon.svg`) to path below `root`.
        module: The runtime module under its stable name.
        onnxruntime: Package, version and flavours of the web runtime, paths below `root`.
    """

    root: Path
    assets: dict[str, str]
    module: str
    onnxruntime: dict[str, object]

    @property
    def service_worker(self) -> str:
        """The compiled service worker, which wants its site's description put before it."""
        return (self.root / "sw.js").read_text(encoding="utf-8")

    @cached_property
    def integrity(self) -> dict[str, str]:
        """Logical name of each asset to its integrity, as HTML wants it."""
        return {
            name: integrity((self.root / path).read_bytes()) for name, path in self.assets.items()
        }

    @property
    def version(self) -> str:
        """Version of onnxruntime-web."""
        return str(self.onnxruntime["version"])


@cache
def web() -> Web:
    """Find the compiled web assets, in the wheel or in the checkout.

    Raises:
        UsageError: They were never compiled.
    """
    root = PACKAGE / "_web"
    index = root / "web.json"
    if not index.is_file():
        raise UsageError(
            "web assets", "they aren't compiled in this checkout", "Run `make install` first."
        )
    content = json.loads(index.read_text(encoding="utf-8"))
    return Web(root, content["assets"], "onnxsite.js", content["onnxruntime"])


def templates() -> Path:
    """The folder of HTML templates: beside the package in a checkout, inside it in the wheel."""
    inside, beside = PACKAGE / "_static", PACKAGE.parent / "static"
    return inside if inside.is_dir() else beside


def store_runtime(store: Store) -> types.Runtime:
    """Put every flavour of the web runtime into a site; its wasm is sharded as weights are."""
    found = web()
    flavours: list[types.Flavour] = []
    for entry in cast("list[dict[str, str]]", found.onnxruntime["flavours"]):
        wasm = (found.root / entry["wasm"]).read_bytes()
        flavours.append(
            {
                "name": cast("types.FlavourName", entry["name"]),
                "api": store.add((found.root / entry["api"]).read_bytes(), ".mjs"),
                "glue": store.add((found.root / entry["glue"]).read_bytes(), ".mjs"),
                "wasm": store.add_blob(wasm, "ort.wasm"),
            }
        )
    return {
        "package": str(found.onnxruntime["package"]),
        "version": found.version,
        "flavours": flavours,
    }
