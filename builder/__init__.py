"""onnxsite: from a trained model to a verified static site that runs it in the visitor's browser.

The command line, `python -m builder`, is a thin layer over these names:

    from builder import build
    result = build(["model.onnx"], "site")
    for manifest in result.manifests:
        print(manifest["id"], [variant["dtype"] for variant in manifest["stages"][0]["variants"]])
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

from builder.errors import OnnxsiteError

if TYPE_CHECKING:
    from builder.pipeline import Result
    from builder.plan import Flags

try:
    __version__ = version("onnxsite")
except PackageNotFoundError:  # a checkout that was never installed
    __version__ = "0.0.0"

__all__ = ["OnnxsiteError", "__version__", "build"]


def build(
    sources: Sequence[str],
    out: str | Path,
    *,
    recipe: str | Path | None = None,
    flags: Flags | None = None,
) -> Result:
    """Build a site, as `python -m builder build` does.

    Args:
        sources: Paths of .onnx files, `package.module:factory`, or `zoo:NAME`.
        out: The output folder; replaced as a whole, and only if it was built here.
        recipe: A TOML file, or a pyproject.toml with `[tool.builder]`.
        flags: What overrides the recipe.

    Raises:
        OnnxsiteError: See `builder.errors`; the output folder is then as it was before.
    """
    # Here, so that importing the package stays cheap: these load onnx and onnxruntime.
    from builder import pipeline, plan
    from builder import recipe as recipes

    path = Path(recipe) if recipe is not None else None
    return pipeline.run(
        plan.make(
            sources,
            Path(out),
            recipe=recipes.load(path) if path else None,
            recipe_base=path.resolve().parent if path else None,
            flags=flags,
        )
    )
