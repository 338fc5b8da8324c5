"""Draw imported graphs with Netron, where it is installed."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec

import onnx_ir as ir

from builder.errors import MissingExtraError
from builder.model import Model


def require() -> None:
    """See that Netron is installed.

    Raises:
        MissingExtraError: It isn't.
    """
    if find_spec("netron") is None:
        raise MissingExtraError(
            "--netron", "Netron isn't installed", "Install it: pip install netron."
        )


def show(models: Mapping[str, Model]) -> None:
    """Serve each part at an address of its own on this machine, open it, and wait for Ctrl-C."""
    import netron

    for name, model in models.items():
        content = ir.to_proto(model.ir).SerializeToString()
        # A bytearray: of bytes, Netron would draw its own idea of the graph.
        netron.serve(f"{name}.onnx", bytearray(content), browse=True)
    netron.wait()
