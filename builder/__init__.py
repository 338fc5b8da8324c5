"""onnxsite: from a trained model to a verified static site that runs it in the visitor's browser.

    >>> from builder import build
    >>> build(["model.onnx"], "site")  # doctest: +SKIP

The command line, `python -m builder`, is a thin layer over these names.
"""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("onnxsite")
except PackageNotFoundError:  # a checkout that was never installed
    __version__ = "0.0.0"
