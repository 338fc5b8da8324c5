"""Flags about a source, which all verbs that import one share."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TypeVar, get_args

import rich_click as click

from builder import plan
from builder.recipe import ElementType, Shape

F = TypeVar("F", bound=Callable[..., object])

SHAPE = re.compile(r"([^=]+)=([^:]*)(?::(\w+))?")

TYPES = get_args(ElementType)

Described = Mapping[str, tuple[Shape, ElementType | None]]
"""Shapes and element types by the names of inputs."""


def _shapes(
    _context: click.Context, _parameter: click.Parameter, values: tuple[str, ...]
) -> Described:
    """Read `--shape NAME=1,3,H,W:TYPE`."""
    found: dict[str, tuple[Shape, ElementType | None]] = {}
    for value in values:
        match = SHAPE.fullmatch(value)
        if match is None:
            raise click.BadParameter(f"'{value}' isn't NAME=1,3,height,width or NAME=1,128:int64")
        name, sizes, named = match.groups()
        dtype: ElementType | None = next((known for known in TYPES if known == named), None)
        if dtype is None and named is not None:
            raise click.BadParameter(f"'{named}' isn't one of {', '.join(TYPES)}")
        axes = [axis.strip() for axis in sizes.split(",")] if sizes.strip() else []
        for axis in axes:
            if not (axis.isdigit() or axis.isidentifier()):
                raise click.BadParameter(f"'{axis}' is neither a size nor a name for one")
        found[name] = ([int(axis) if axis.isdigit() else axis for axis in axes], dtype)
    return found


def _sha256(_context: click.Context, _parameter: click.Parameter, value: str | None) -> str | None:
    if value is not None and not re.fullmatch(r"[0-9a-fA-F]{64}", value):
        raise click.BadParameter("it must have 64 hexadecimal digits")
    return value.lower() if value is not None else None


OPTIONS = (
    click.option(
        "--sha256",
        callback=_sha256,
        metavar="HEX",
        help="What a source that is fetched must have; #sha256=HEX behind it says the same.",
    ),
    click.option(
        "--weights",
        metavar="PATH",
        help="A file that a PyTorch factory gets as its parameter weights: a path or a reference.",
    ),
    click.option(
        "--shape",
        "shapes",
        multiple=True,
        callback=_shapes,
        metavar="NAME=1,3,H,W",
        help="An input's shape, where the model declares none or a false one; a word is a free "
        "axis. NAME=1,128:int64 gives TorchScript's input another type than float32.",
    ),
    click.option(
        "--trust",
        is_flag=True,
        help="Let code inside the source run: a pickle's, a Lambda layer's.",
    ),
)


def source_options(command: F) -> F:
    """Add them to a command."""
    for option in reversed(OPTIONS):
        command = option(command)
    return command


def split(described: Described) -> tuple[dict[str, Shape], dict[str, ElementType]]:
    """Shapes, and the types that are given, by name."""
    shapes = {name: shape for name, (shape, _) in described.items()}
    return shapes, {name: dtype for name, (_, dtype) in described.items() if dtype is not None}


def asked(*, sha256: str | None, weights: str | None, shapes: Described, trust: bool) -> plan.Flags:
    """They alone, as a plan takes them."""
    sizes, types = split(shapes)
    return plan.Flags(sha256=sha256, weights=weights, shapes=sizes, types=types, trust=trust)
