"""Real browsers, started and driven the same way whatever engine they have."""

from __future__ import annotations

from builder.verify.browser import Browser, PageError
from builder.verify.engines import ENGINES, Engine, installed, launch

__all__ = ["ENGINES", "Browser", "Engine", "PageError", "installed", "launch"]
