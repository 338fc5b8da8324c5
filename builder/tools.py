"""Versions of everything that shapes the bytes of a build."""

from __future__ import annotations

from importlib.metadata import version

from builder import __version__
from builder.recipe import ModelRecipe

ALWAYS = ("numpy", "onnx", "onnx-ir", "onnxruntime", "pillow")
TORCH = ("torch",)


def versions(recipe: ModelRecipe) -> dict[str, str]:
    """Package name to version; a framework is listed only if the source needed it."""
    packages = ALWAYS + (TORCH if ":" in recipe.source else ())
    return {"onnxsite": __version__, **{name: version(name) for name in packages}}
