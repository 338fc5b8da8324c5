"""Read an exported program (`torch.export.save`), once what PyTorch would evaluate was looked at.

Its expressions of sizes go through Python's `eval`, its operators are looked up by name anywhere
in `torch`, and a pickle in it that holds more than tensors would be read as it is. A file in which
all of these are what `torch.export.save` writes is read without being trusted.
"""

from __future__ import annotations

import ast
import json
import os
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from builder.errors import NotAModelError, UsageError
from builder.sources import process
from builder.sources.torch_spec import TorchExport

if TYPE_CHECKING:
    import torch

OPERATOR = re.compile(
    r"torch\.ops\.\w+\.\w+(\.\w+)?|torch\._?sym_\w+|math\.\w+"
    r"|_operator\.(add|sub|mul|truediv|floordiv|mod|pow|neg|pos|abs|eq|ne|lt|le|gt|ge|and_|or_|not_"
    r"|getitem|index)"
)
"""Operators that a program calls; a target that doesn't begin like one is only a name."""

LOOKED_UP = re.compile(r"torch\b|_operator\b|math\b|#")

FUNCTIONS = frozenset(
    "Max Min Mod Abs Pow Eq Ne Lt Le Gt Ge And Or Not floor ceiling oo int_oo True False sqrt "
    "FloorDiv ModularIndexing Where PythonMod CleanDiv CeilDiv CeilToInt FloorToInt TruncToInt "
    "RoundToInt RoundDecimal ToFloat Identity IntTrueDiv FloatTrueDiv PowByNatural FloatPow "
    "BitwiseFn_bitwise_and BitwiseFn_bitwise_or TruncToFloat OpaqueUnaryFn_sqrt LShift RShift "
    "Symbol Add Mul Integer Rational Float".split()
)
"""Names in expressions of sizes, beside symbols."""

SYMBOL = re.compile(r"z?[a-z]+\d+")

TEXT = re.compile(rf"{SYMBOL.pattern}|-?[\d.]+(e[+-]?\d+)?")
"""Strings in them, which sympy may evaluate in their turn: symbols and numbers alone."""

ALLOWED = (
    ast.Expression, ast.Name, ast.Load, ast.Call, ast.BinOp, ast.UnaryOp, ast.Compare, ast.BoolOp,
    ast.Constant, ast.keyword, ast.operator, ast.unaryop, ast.cmpop, ast.boolop,
)  # fmt: skip

ONLY_TENSORS = "TORCH_FORCE_WEIGHTS_ONLY_LOAD"
"""Without it PyTorch reads a pickle as it is, where reading it for tensors fails."""

SPATIAL = {4: {2: "height", 3: "width"}}
"""What axes are called by rank; any other but the first is a `length`."""


def load(path: Path, *, trust: bool) -> TorchExport:
    """The module of a program, with its own example inputs, free axes and their limits.

    Args:
        path: A .pt2 file.
        trust: Whether code in the file may run.

    Raises:
        UsageError: It would run code, and isn't trusted.
        NotAModelError: It's damaged, or of another version.
    """
    import torch

    if not trust:
        os.environ[ONLY_TENSORS] = "1"
        fault = next(faults(path), None)
        if fault is not None:
            raise UsageError(
                "exported program",
                f"reading it would run what torch.export doesn't write: {fault}",
                "If you know where it comes from, build with --trust.",
            )
    try:
        program = torch.export.load(path)
    except Exception as error:
        raise NotAModelError(
            "exported program",
            f"PyTorch {torch.__version__} can't read it ({process.first_line(error)})",
            "Save it again with this version.",
        ) from error
    return _described(program)


def faults(path: Path) -> Iterator[str]:
    """What in a program isn't as `torch.export.save` writes it."""
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            if not name.endswith(".json"):
                continue
            try:
                content = json.loads(archive.read(name))
            except ValueError:
                continue  # PyTorch says so, and reads no further
            for key, value in _strings(content):
                if key == "expr_str" and not _is_size(value):
                    yield f"the expression {value[:80]}"
                if key == "target" and LOOKED_UP.match(value) and not OPERATOR.fullmatch(value):
                    yield f"the operator {value[:80]}"


def _strings(content: Any, key: str = "") -> Iterator[tuple[str, str]]:
    """Every string in JSON, with the key that it stands under."""
    if isinstance(content, str):
        yield key, content
    elif isinstance(content, dict):
        for name, value in content.items():
            yield from _strings(value, name)
    elif isinstance(content, list):
        for value in content:
            yield from _strings(value, key)


def _is_size(expression: str) -> bool:
    """Whether an expression only computes with sizes."""
    try:
        tree = ast.parse(expression.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            if node.id not in FUNCTIONS and not SYMBOL.fullmatch(node.id):
                return False
        elif isinstance(node, ast.Constant):
            text = isinstance(node.value, str) and TEXT.fullmatch(node.value)
            if not text and not isinstance(node.value, int | float):
                return False
        elif isinstance(node, ast.Call):
            if not isinstance(node.func, ast.Name):
                return False
        elif not isinstance(node, ALLOWED):
            return False
    return True


def _described(program: torch.export.ExportedProgram) -> TorchExport:
    import torch

    if program.example_inputs is None:
        raise NotAModelError(
            "exported program", "it holds no example inputs", "Export and save it again."
        )
    args, kwargs = program.example_inputs
    values = [*torch.utils._pytree.tree_leaves(args), *torch.utils._pytree.tree_leaves(kwargs)]
    names = [str(name) for name in program.graph_signature.user_inputs]
    fakes = {
        node.name: node.meta.get("val") for node in program.graph.nodes if node.op == "placeholder"
    }
    if any(not isinstance(value, torch.Tensor) for value in values):
        raise NotAModelError(
            "exported program",
            "some of its inputs aren't tensors",
            "Export a module whose forward takes tensors alone.",
        )
    dynamic, limits = _free_axes(program, {name: fakes[name] for name in names})
    inner = program.module()
    # It has one mode, that of its export, and refuses to be asked for another.
    inner.train = lambda mode=True: inner  # type: ignore[method-assign]
    inner.eval = lambda: inner  # type: ignore[method-assign]
    module = _called(inner, len(args), list(kwargs))
    # An output's name in a program is that of the operator that made it, which says nothing.
    return TorchExport(
        module, dict(zip(names, values, strict=True)), dynamic=dynamic, limits=limits
    )


def _free_axes(
    program: torch.export.ExportedProgram, inputs: dict[str, Any]
) -> tuple[dict[str, dict[int, str]], dict[str, tuple[int, int | None]]]:
    """Free axes with names for people, and the limits that the program has for them."""
    import torch

    called: dict[str, str] = {}
    dynamic: dict[str, dict[int, str]] = {}
    limits: dict[str, tuple[int, int | None]] = {}
    for key, tensor in inputs.items():
        for axis, extent in enumerate(tensor.shape):
            if not isinstance(extent, torch.SymInt):
                continue
            symbol = extent.node.expr
            if not symbol.is_Symbol:
                continue  # twice another, say: it follows that one
            if str(symbol) not in called:
                base = "batch" if axis == 0 else SPATIAL.get(tensor.ndim, {}).get(axis, "length")
                taken = called.values()
                numbered = (f"{base}_{n}" for n in range(1, len(called) + 2))
                name = base if base not in taken else next(n for n in numbered if n not in taken)
                called[str(symbol)] = name
                bounds = program.range_constraints.get(symbol)
                if bounds is not None:
                    high = int(bounds.upper) if bounds.upper.is_Integer else None
                    limits[name] = (int(bounds.lower) if bounds.lower.is_Integer else 0, high)
            dynamic.setdefault(key, {})[axis] = called[str(symbol)]
    return dynamic, limits


def _called(module: torch.nn.Module, count: int, keys: list[str]) -> torch.nn.Module:
    """A module that takes the program's inputs in order: `count` by place, the rest by name."""
    import torch

    class Called(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.module = module

        def forward(self, *args: torch.Tensor) -> Any:
            return self.module(*args[:count], **dict(zip(keys, args[count:], strict=True)))

    return Called()
