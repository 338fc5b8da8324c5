"""Make a module of a file that PyTorch has written: an exported program, or TorchScript.

Weights without their code, and pickled modules, are told what they are. Nothing here runs code out
of a file that isn't trusted: pickles are read for tensors alone, and what PyTorch would evaluate in
an exported program is looked at first (`torch_program`). `torch_factory` exports what `factory`
returns, in a process of its own.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from builder.errors import NotAModelError, SourceError, UnsupportedError, UsageError
from builder.sources.torch_spec import TorchExport

if TYPE_CHECKING:
    import torch

SOURCE = "builder.sources.torch_files:factory"

ENDINGS = (".pt2", ".pth", ".pt", ".jit", ".torchscript", ".ckpt", ".bin")

BATCH = 2
"""Length of a free first axis in an example."""

LENGTH = 64
"""Length of any other free axis in an example."""

FACTORY = (
    "Write a function that makes the module and returns it with example inputs, and give that: "
    "nets.py:make --weights {name}."
)


def matches(path: Path) -> bool:
    """Whether a path is a file that PyTorch may have written."""
    return path.suffix in ENDINGS and path.is_file()


def factory(
    path: Path, shapes: Mapping[str, Sequence[int | str]], types: Mapping[str, str], trust: bool
) -> TorchExport:
    """The module in a file, with example inputs.

    Args:
        path: What was written by `torch.export.save` or `torch.jit.save`.
        shapes: Of all of TorchScript's inputs, in order; a string is a free axis.
        types: Their element types, where they aren't float32.
        trust: Whether code in the file may run.

    Raises:
        SourceError: It's damaged, or holds no module.
        UsageError: It's a pickle of one, or code that isn't trusted; or `shapes` are missing.
        UnsupportedError: An input isn't a tensor.
    """
    return READERS[_kind(path)](path, shapes, types, trust)


def _kind(path: Path) -> str:
    """What a file holds, by what is in its archive: endings tell little."""
    with path.open("rb") as file:
        if not file.read(4).startswith(b"PK\x03\x04"):
            return "pickle"
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except zipfile.BadZipFile as error:
        raise NotAModelError(
            "file", f"its archive is damaged ({error})", "Save or download it again."
        ) from error
    inside = {"/".join(PurePosixPath(name).parts[1:]) for name in names}
    if any(name.startswith("data/aotinductor/") for name in inside):
        raise UnsupportedError(
            "file",
            "it's compiled for one kind of machine (AOTInductor)",
            "Save the program that it was compiled from, with torch.export.save.",
        )
    if "archive_format" in inside or "serialized_exported_program.json" in names:
        return "program"
    return "script" if "constants.pkl" in inside else "pickle"


def _program(path: Path, shapes: Any, types: Any, trust: bool) -> TorchExport:
    from builder.sources import torch_program

    if shapes or types:
        raise UsageError(
            "shapes", "an exported program has its own", "Leave them out, or export it with others."
        )
    return torch_program.load(path, trust=trust)


def _script(
    path: Path, shapes: Mapping[str, Sequence[int | str]], types: Mapping[str, str], trust: bool
) -> TorchExport:
    import torch

    del trust  # its code runs in an interpreter of its own, which knows tensors alone
    try:
        module = torch.jit.load(path, map_location="cpu")  # type: ignore[no-untyped-call]
    except RuntimeError as error:
        raise NotAModelError(
            "TorchScript", f"it can't be read ({_first(error)})", "Save or download it again."
        ) from error
    taken = module.forward.schema.arguments[1:]
    needed = [argument for argument in taken if not argument.has_default_value()]
    for argument in taken[: max(len(needed), len(shapes))]:
        if str(argument.type) != "Tensor":
            raise UnsupportedError(
                f"input '{argument.name}' of forward",
                f"it is of type {argument.type}, and only tensors can be passed from a page",
                "Write a factory that loads it and passes a constant there: nets.py:make.",
            )
    names = [argument.name for argument in taken]
    if not set(needed_names := [a.name for a in needed]) <= set(shapes) or not shapes:
        missing = [name for name in needed_names if name not in shapes] or names
        raise UsageError(
            "TorchScript",
            f"it doesn't say which shapes its inputs have: {', '.join(missing)}",
            f"Say it: {' '.join(f'--shape {name}=batch,3,224,224' for name in missing)}, say; or "
            "shapes in a recipe.",
        )
    unknown = [name for name in (*shapes, *types) if name not in names]
    if unknown:
        raise UsageError(
            f"shape of '{unknown[0]}'", "there is no such input", f"Choose from {', '.join(names)}."
        )
    order = [name for name in names if name in shapes]
    if order != names[: len(order)]:
        raise UsageError(
            "shapes", f"inputs are passed in order: {', '.join(names)}", "Give all before the last."
        )
    example, dynamic = _example({name: shapes[name] for name in order}, types)
    return TorchExport(_called(module), example, dynamic=dynamic)


def _example(
    shapes: Mapping[str, Sequence[int | str]], types: Mapping[str, str]
) -> tuple[dict[str, torch.Tensor], dict[str, dict[int, str]]]:
    """Seeded tensors of those shapes, and their free axes."""
    import torch

    generator = torch.Generator().manual_seed(0)
    example, dynamic = {}, {}
    firsts = {shape[0] for shape in shapes.values() if shape and isinstance(shape[0], str)}
    for name, shape in shapes.items():
        dtype: torch.dtype = getattr(torch, types.get(name, "float32"))
        sizes = [n if isinstance(n, int) else BATCH if n in firsts else LENGTH for n in shape]
        if dtype.is_floating_point:
            example[name] = torch.randn(sizes, generator=generator).to(dtype)
        else:
            example[name] = torch.ones(sizes, dtype=dtype)
        dynamic[name] = {axis: n for axis, n in enumerate(shape) if isinstance(n, str)}
    return example, dynamic


def _called(module: Any) -> torch.nn.Module:
    """A module that Python can look into, around one that it can't."""
    import torch

    class Called(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.module = module

        def forward(self, *args: torch.Tensor) -> Any:
            return self.module(*args)

    return Called()


def _pickle(path: Path, shapes: Any, types: Any, trust: bool) -> TorchExport:
    """Always raises: say what a pickle holds, without running what is in it."""
    import pickle  # for the name of its error alone

    import torch

    del shapes, types, trust  # trust doesn't help: the module's code isn't in the file
    advice = FACTORY.format(name=path.name)
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        held = re.search(r"GLOBAL ([\w.]+)", str(error)) or re.search(
            r"Unsupported (?:global|class):? ?(\S+)", str(error)
        )
        if held is None:
            raise NotAModelError(
                "pickle", f"it can't be read ({_first(error)})", "Save or download it again."
            ) from error
        raise UsageError(
            "pickle",
            f"reading it would run {held[1]}, and the code of a pickled module isn't in its file",
            f"Save its state_dict() instead. {advice}",
        ) from error
    except Exception as error:
        raise NotAModelError(
            "file", f"it can't be read ({_first(error)})", "Save or download it again."
        ) from error
    if isinstance(content, torch.Tensor):
        raise SourceError("file", "it holds a tensor, no model", advice)
    tensors = list(_tensor_names(content))
    if not tensors:
        raise SourceError("file", f"it holds a {type(content).__name__}, no model", advice)
    raise SourceError(
        "file",
        f"it holds weights alone ({len(tensors)} tensors: {', '.join(tensors[:3])}, …), not the "
        "code that computes with them",
        advice,
    )


def _tensor_names(content: Any, before: str = "") -> list[str]:
    """Of all tensors in nested mappings."""
    import torch

    if not isinstance(content, Mapping):
        return []
    found = []
    for key, value in content.items():
        name = f"{before}{key}"
        if isinstance(value, torch.Tensor):
            found.append(name)
        else:
            found += _tensor_names(value, f"{name}.")
    return found


def _first(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0][:200] if lines else type(error).__name__


READERS: Mapping[str, Callable[[Path, Any, Any, bool], TorchExport]] = {
    "program": _program,
    "script": _script,
    "pickle": _pickle,
}
"""By what a file holds."""
