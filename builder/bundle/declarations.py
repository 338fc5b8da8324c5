"""The TypeScript declarations of one model: names, element types and shapes of its interface.

They import nothing, so that a copy of the file is enough; the runtime's own types fit them by their
structure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from builder.bundle import _manifest as types

NAME = "model.d.ts"

ARRAYS: dict[types.DType, str] = {
    "float32": "Float32Array",
    "float16": "Float32Array",
    "float64": "Float64Array",
    "int8": "Int8Array",
    "uint8": "Uint8Array",
    "int16": "Int16Array",
    "uint16": "Uint16Array",
    "int32": "Int32Array",
    "uint32": "Uint32Array",
    "int64": "BigInt64Array",
    "uint64": "BigUint64Array",
    "bool": "Uint8Array",
}
"""What the runtime hands out by element type; halves come widened."""

TENSORS = """\
/** What an input takes: any array of numbers; the runtime converts it and checks its range. */
interface Input {
  readonly data:
    | Float32Array | Float64Array | BigInt64Array | BigUint64Array
    | Int8Array | Uint8Array | Uint8ClampedArray
    | Int16Array | Uint16Array | Int32Array | Uint32Array
    | readonly number[] | readonly bigint[] | readonly boolean[];
  readonly dims: readonly number[];
}

/** What an input with a vocabulary takes: words, or their places in it; -1 is an unknown word. */
interface Words {
  readonly data: readonly string[] | Input["data"];
  readonly dims: readonly number[];
}

/** What an output gives. */
interface Output<Type extends string, Data> {
  readonly dtype: Type;
  readonly dims: number[];
  readonly data: Data;
}
"""

IDENTIFIER = re.compile(r"[A-Za-z_$][\w$]*", re.ASCII)


def declarations(manifest: types.Manifest) -> str:
    """The content of a model's `model.d.ts`: the interfaces `Inputs` and `Outputs`."""
    interface = manifest["interface"]
    head = [
        f"{manifest['title']}, as this site runs it.",
        "",
        'import type { Inputs, Outputs } from "./model.js"; // where this file lies',
        "const model = await load<Inputs, Outputs>(url);",
    ]
    inputs = (
        (
            spec,
            "?" if spec.keys() & {"default", "from"} else "",
            "Words" if "vocabulary" in spec else "Input",
        )
        for spec in interface["inputs"]
    )
    outputs = (
        (
            spec,
            "",
            f"Output<{json.dumps(spec['dtype'])}, {ARRAYS[spec['dtype']]}>"
            + (" & { readonly words: readonly string[] }" if "vocabulary" in spec else ""),
        )
        for spec in interface["outputs"]
    )
    return "\n".join(
        [
            *_comment(head, ""),
            "",
            *_interface("Inputs", inputs),
            "",
            *_interface("Outputs", outputs),
            "",
            TENSORS,
        ]
    )


def _interface(name: str, members: Iterable[tuple[types.TensorSpec, str, str]]) -> Iterator[str]:
    yield f"export interface {name} {{"
    for spec, optional, kind in members:
        said = [f"`{spec['dtype']}[{', '.join(map(str, spec['shape']))}]`"]
        if "description" in spec:
            said[0] += f": {spec['description']}"
        if "vocabulary" in spec:
            said.append(f"Places in {json.dumps(spec['vocabulary'], ensure_ascii=False)}.")
        if "default" in spec:
            said.append(f"Left out, it is {spec['default']}.")
        if "from" in spec:
            said.append(f"The output `{spec['from']}` of the run before; left out, nothing.")
        yield from _comment(said, "  ")
        yield f"  readonly {_property(spec['name'])}{optional}: {kind};"
    yield "}"


def _property(name: str) -> str:
    """As a property is written: quoted where it isn't an identifier."""
    return name if IDENTIFIER.fullmatch(name) else json.dumps(name)


def _comment(lines: Iterable[str], indent: str) -> Iterator[str]:
    """A comment that no name or title can end, or lead into a tag of its own."""
    yield f"{indent}/**"
    for text in lines:
        for line in text.replace("*/", "*\\/").splitlines() or [""]:
            yield f"{indent} * {line}".rstrip()
    yield f"{indent} */"
