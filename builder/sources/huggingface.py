"""Make the module of a folder as the Hugging Face Hub has it: `config.json` beside weights.

Encoders of text, pictures and sound are one part; for what writes token by token see `generative`.
`torch_factory` exports what `factory` returns, in a process of its own.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from builder.errors import MissingExtraError, SourceError, UnsupportedError
from builder.sources import generative
from builder.sources.generative_inputs import MASKED
from builder.sources.torch_spec import TorchExport, TorchParts

if TYPE_CHECKING:
    import torch
    from transformers import PretrainedConfig

SOURCE = "builder.sources.huggingface:factory"

WEIGHTS = ("*.safetensors", "pytorch_model*.bin")

EXTRA = "transformers"

SIDE = 224
"""Pixels of a picture's sides where a folder doesn't say."""

SOUND = 16_000
"""Samples of the example: one second at the rate that speech models take."""


def matches(path: Path) -> bool:
    """Whether a path is such a folder."""
    return (path / "config.json").is_file() and any(
        next(path.glob(pattern), None) is not None for pattern in WEIGHTS
    )


def factory(path: Path) -> TorchExport | TorchParts:
    """The model of a folder, in the architecture that its configuration names.

    Text: `input_ids`, `attention_mask` and, where there are any, `token_type_ids`, each
    i64[batch, sequence]. Pictures: `pixel_values` f32[batch, channels, height, width], of the
    size in `config.json` or `preprocessor_config.json`, else `SIDE`. Sound: `input_values`
    f32[batch, samples].

    Raises:
        MissingExtraError: transformers isn't installed.
        SourceError: The configuration names no architecture that transformers has.
        UnsupportedError: It takes something else, or can't be run with a cache.
    """
    require(path.name)
    import transformers

    config = transformers.AutoConfig.from_pretrained(path, local_files_only=True)
    name = _architecture(path, config)
    kind = getattr(transformers, name, None)
    if kind is None:
        raise SourceError(
            "config.json",
            f"transformers {transformers.__version__} has no {name}",
            "Code of its own in a model's folder isn't run.",
        )
    config._attn_implementation = "eager"
    # fp32 even where the weights are kept in halves: halves are made of it later, and judged.
    model = kind.from_pretrained(path, config=config, local_files_only=True, dtype="float32")
    if model.can_generate():
        return generative.parts(model, f"architecture {name}")
    make = KINDS.get(model.main_input_name)
    if make is None:
        raise UnsupportedError(
            f"architecture {name}",
            f"its main input is '{model.main_input_name}'",
            f"Folders of models that take {', '.join(KINDS)} can be imported.",
        )
    return make(model, config, path)


def require(name: str, packages: Sequence[str] = ("transformers",), extra: str = EXTRA) -> None:
    """See that packages are installed.

    Raises:
        MissingExtraError: One isn't; `name` is what it was needed for.
    """
    for package in packages:
        if find_spec(package) is None:
            raise MissingExtraError(
                name, f"{package} isn't installed", f"Install it: pip install 'onnxsite[{extra}]'."
            )


def _architecture(folder: Path, config: PretrainedConfig) -> str:
    named = config.architectures or []
    if not named:
        content = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        raise SourceError(
            "config.json",
            f"it names no architecture, only the model type '{content.get('model_type')}'",
            'Add "architectures": ["BertModel"], or whatever class the weights are of.',
        )
    return str(named[0])


def _text(model: Any, config: PretrainedConfig, path: Path) -> TorchExport:
    import torch

    del path
    ids = torch.tensor([[5, 6, 7, 8, 9, 3], [4, 5, 6, 1, 1, 1]]) % config.vocab_size
    mask = torch.tensor([[1, 1, 1, 1, 1, 1], [1, 1, 1, 0, 0, 0]])
    example = {"input_ids": ids, "attention_mask": mask}
    if getattr(config, "type_vocab_size", 0) > 1:
        example["token_type_ids"] = torch.zeros_like(ids)
    free = {0: "batch", 1: "sequence"}
    module = _masked(model, example) or _named(model, list(example))
    return TorchExport(module, example, dynamic=dict.fromkeys(example, free))


def _masked(model: Any, example: Mapping[str, torch.Tensor]) -> torch.nn.Module | None:
    """The model with its mask written with four axes, where it takes that for the same.

    Transformers would build it with vmap, which tracing can't follow, and with the lowest fp32 in
    it, which is -inf in half.
    """
    import torch

    four = _named(model, list(example), four_axes=True)
    args = list(example.values())
    with torch.no_grad():
        want = next(iter(_named(model, list(example)).eval()(*args).values()))
        try:
            got = next(iter(four.eval()(*args).values()))
        except Exception:
            return None  # it makes something else of a mask
    # Nobody reads the rows of what is masked, and they differ.
    seen = example["attention_mask"].bool()
    same = want.shape == got.shape and want.ndim == 3 and want.shape[:2] == seen.shape
    if same:
        want, got = want[seen], got[seen]
    close = want.shape == got.shape and torch.allclose(want, got, atol=1e-4)
    return four if close else None


def _named(model: Any, names: list[str], *, four_axes: bool = False) -> torch.nn.Module:
    """A module that takes tensors in the order of `names`, and gives what the model gives."""
    import torch

    class Named(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, *args: torch.Tensor) -> Any:
            inputs = dict(zip(names, args, strict=True))
            if four_axes:
                mask = inputs["attention_mask"][:, None, None, :].to(torch.float32)
                inputs["attention_mask"] = (1.0 - mask) * MASKED
            result = self.model(**inputs)
            return {key: value for key, value in result.items() if key != "past_key_values"}

    return Named()


def _picture(model: Any, config: PretrainedConfig, path: Path) -> TorchExport:
    import torch

    size = getattr(config, "image_size", None) or _prepared(path)
    height, width = (size, size) if isinstance(size, int) else tuple(size)[-2:]
    channels = getattr(config, "num_channels", 3)
    example = {"pixel_values": torch.zeros(1, channels, height, width)}
    return TorchExport(_named(model, list(example)), example)


def _prepared(folder: Path) -> tuple[int, int]:
    """Height and width that a folder's processor brings pictures to."""
    file = folder / "preprocessor_config.json"
    said = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    for key in ("crop_size", "size"):
        size = said.get(key)
        if isinstance(size, int):
            return size, size
        if isinstance(size, dict) and {"height", "width"} <= size.keys():
            return size["height"], size["width"]
        if isinstance(size, dict) and "shortest_edge" in size:
            return size["shortest_edge"], size["shortest_edge"]
    return SIDE, SIDE


def _sound(model: Any, config: PretrainedConfig, path: Path) -> TorchExport:
    import torch

    del config, path
    generator = torch.Generator().manual_seed(0)
    example = {"input_values": torch.randn(1, SOUND, generator=generator)}
    free = {"input_values": {0: "batch", 1: "samples"}}
    return TorchExport(_named(model, list(example)), example, dynamic=free)


KINDS: Mapping[str, Callable[[Any, Any, Path], TorchExport]] = {
    "input_ids": _text,
    "pixel_values": _picture,
    "input_values": _sound,
}
"""By a model's main input."""
