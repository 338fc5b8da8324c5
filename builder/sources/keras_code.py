"""Whether a Keras file holds code, told from what it says of its layers, before anything is made.

Keras has a safe mode of its own, which is asked for as well; older formats have gone around it.
"""

from __future__ import annotations

import importlib
import json
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from builder.errors import NotAModelError, UsageError

CODE = ("Lambda", "__lambda__", "function")
"""Classes whose configurations hold functions."""

OWN = ("keras", "tf_keras", "tensorflow", "builtins")
"""Packages whose classes are Keras's own, or data."""


def refuse(path: Path) -> None:
    """See that a file is layers of Keras and nothing else.

    Args:
        path: A `.keras` file, or an HDF5 file (which takes `h5py`).

    Raises:
        NotAModelError: It says nothing of layers.
        UsageError: One of them is code, or of a class that isn't Keras's.
    """
    try:
        told = json.loads(_configuration(path))
    except (OSError, KeyError, ValueError, zipfile.BadZipFile) as error:
        raise NotAModelError(
            path.name,
            f"it's no whole model of Keras ({error})",
            "Save the model itself, not its weights alone; or download it again.",
        ) from error
    for entry in _classes(told):
        name, module = entry["class_name"], str(entry.get("module") or "keras")
        if name in CODE or module.split(".")[0] not in OWN:
            raise UsageError(
                path.name,
                f"its {name} is code in the file or outside Keras, which would run",
                "If you know where it comes from, build with --trust.",
            )


def _configuration(path: Path) -> str | bytes:
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            return archive.read("config.json")
    with importlib.import_module("h5py").File(path) as file:
        told: str | bytes = file.attrs["model_config"]
        return told


def _classes(config: Any) -> Iterator[Mapping[str, Any]]:
    """Every object that a configuration names."""
    if isinstance(config, Mapping):
        if "class_name" in config:
            yield config
        for value in config.values():
            yield from _classes(value)
    elif isinstance(config, list):
        for value in config:
            yield from _classes(value)
