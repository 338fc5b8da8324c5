"""Serve a built site as a good static host would."""

from __future__ import annotations

from builder.server.app import create_app
from builder.server.run import running, serve

__all__ = ["create_app", "running", "serve"]
