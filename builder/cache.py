"""Where downloads and results of earlier builds are kept: outside any work tree."""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs

VARIABLE = "ONNXSITE_CACHE"


def cache_dir() -> Path:
    """The user's cache folder for onnxsite, or what `ONNXSITE_CACHE` names."""
    chosen = os.environ.get(VARIABLE)
    return Path(chosen) if chosen else Path(platformdirs.user_cache_dir("onnxsite"))
