"""transformers.js as a page gets it from a CDN, out of its npm packages, pinned by content.

File by file: installed as a dependency it would bring hundreds of MB of what runs in Node.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from builder.fetch import fetch
from builder.recipe import Pinned

RUNTIME = "npm:onnxruntime-web@1.31.0-dev.20260914-8d85527a0#dist/ort-wasm-simd-threaded.asyncify"

FILES = (
    Pinned(
        ref="npm:@huggingface/transformers@4.3.2#dist/transformers.min.js",
        sha256="8b5a3171f8876bab2b1820a7d65eb87628e3d30bb5ea85b9dd398e76eb34decb",
    ),
    Pinned(
        ref=f"{RUNTIME}.mjs",
        sha256="0966b6105cd936744498aa60df7a22cbd47af3374dbc64a9ab561c08a71e3611",
    ),
    Pinned(
        ref=f"{RUNTIME}.wasm",
        sha256="49871f5a4409519797e127440868a6d1923339d9185907f301a5b2a1d90af082",
    ),
)
"""The module, and the build of the web runtime that it asks a CDN for in Chromium."""

IMPORT = """
const at = new URL("{folder}", location.href).href;
const {{ env, {names} }} = await import(`${{at}}transformers.min.js`);
env.allowRemoteModels = false;
env.allowLocalModels = true;
env.localModelPath = "{models}"; // a path: at a full address it doesn't look for tokenizers
const runtime = `${{at}}ort-wasm-simd-threaded.asyncify`;
env.backends.onnx.wasm.wasmPaths = {{ mjs: `${{runtime}}.mjs`, wasm: `${{runtime}}.wasm` }};
"""


def place(folder: Path) -> None:
    """Put the files into a folder.

    Raises:
        FetchError: They can't be fetched.
    """
    folder.mkdir(parents=True)
    for pinned in FILES:
        path = fetch(pinned)
        shutil.copyfile(path, folder / path.name)


def importing(*names: str, folder: str, models: str) -> str:
    """JavaScript that imports names, with files and models from the page's own host.

    Args:
        names: Of what transformers.js exports.
        folder: Where `place` put the files, relative to the page, ending in a slash.
        models: The folder that holds folders of models, likewise.
    """
    return IMPORT.format(names=", ".join(names), folder=folder, models=models)
