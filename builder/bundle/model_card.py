"""The README.md of a model on the Hugging Face Hub: what was measured, under which licence."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from builder.bundle import _manifest as types

SPDX = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+-]*")
"""The form of a licence's identifier, which the hub writes in small letters."""

USE = """\
```js
import { AutoModel } from "@huggingface/transformers";

const model = await AutoModel.from_pretrained("OWNER/NAME", { dtype: "%s" });
```"""


@dataclass(frozen=True)
class Row:
    """One variant in the folder.

    Attributes:
        file: Its graph.
        dtype: What transformers.js calls it.
        size: Bytes of graph and weights.
        verdict: Of its gate.
    """

    file: str
    dtype: str
    size: int
    verdict: types.Verdict


def card(manifest: types.Manifest, rows: Sequence[Row]) -> str:
    """Markdown with the hub's front matter."""
    return "\n".join([*_front(manifest), *_body(manifest, rows)]) + "\n"


def _front(manifest: types.Manifest) -> Iterator[str]:
    yield "---"
    yield "library_name: transformers.js"
    licence = manifest["licence"]
    if licence["name"] != "unstated":
        if SPDX.fullmatch(licence["name"]):
            yield f"license: {licence['name'].lower()}"
        else:
            yield "license: other"
            yield f"license_name: {json.dumps(licence['name'], ensure_ascii=False)}"
        if "url" in licence:
            yield f"license_link: {json.dumps(licence['url'])}"
    yield "tags: [onnx]"
    yield "---"


def _body(manifest: types.Manifest, rows: Sequence[Row]) -> Iterator[str]:
    yield f"# {manifest['title']}"
    yield ""
    if "description" in manifest:
        yield manifest["description"]
        yield ""
    yield "Each variant was compared with the fp32 model on the CPU before it was published."
    yield ""
    yield "| file | `dtype` | bytes | metric | measured | required | verdict |"
    yield "|---|---|--:|---|--:|--:|---|"
    for row in rows:
        cells = [
            f"`{row.file}`",
            f'`"{row.dtype}"`',
            f"{row.size:,}",
            row.verdict["metric"],
            f"{row.verdict['value']:g}",
            f"{row.verdict['tolerance']:g}",
            f"passed. {row.verdict['reason']}".replace("|", "\\|"),
        ]
        yield f"| {' | '.join(cells)} |"
    yield ""
    for dropped in manifest["dropped"]:
        yield f"- `{dropped['dtype']}` isn't published: {dropped['reason']}"
    if manifest["dropped"]:
        yield ""
    names = [row.dtype for row in rows]
    yield USE % ("q8" if "q8" in names else names[0])
    yield ""
    yield "## Origin"
    yield ""
    source, licence = manifest["source"], manifest["licence"]
    said = {
        "Source": source["name"],
        "URL": source.get("url"),
        "Revision": source.get("revision"),
        "SHA-256": source.get("sha256"),
        "Licence": licence["name"],
        "Licence's text": licence.get("url"),
        "Note": licence.get("note"),
        "Made by": ", ".join(f"{k} {v}" for k, v in sorted(manifest["tools"].items())),
    }
    for key, value in said.items():
        if value:
            yield f"- {key}: {value}"
    warnings = [event for event in manifest["events"] if event["level"] == "warning"]
    if warnings:
        yield ""
        yield "## Warnings of the build"
        yield ""
    for event in warnings:
        yield f"- {event['step']}: {event['message']}"
