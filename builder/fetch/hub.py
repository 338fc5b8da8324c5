"""Files and folders of the Hugging Face Hub, by its own client."""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from builder.cache import cache_dir
from builder.errors import FetchError
from builder.fetch.disk import scratch_folder, writing
from builder.fetch.reference import Reference

FAULTS = {
    "LocalEntryNotFoundError": (
        "the hub can't be reached",
        "Check the network and proxy; HF_ENDPOINT names another hub.",
    ),
    "EntryNotFoundError": ("there is no such file in it", "Check the path, case included."),
    "RevisionNotFoundError": ("there is no such commit of it", "Take the commit from its history."),
    "GatedRepoError": (
        "its owner wants terms to be accepted first",
        "Accept them on its page, and sign in with `hf auth login` or HF_TOKEN.",
    ),
    "RepositoryNotFoundError": (
        "there is no such folder on the hub, or it is private",
        "Check the name, or sign in with `hf auth login` or HF_TOKEN.",
    ),
}
"""Why and what to do by the client's errors, the more special ones first."""

COMMIT = re.compile(r"[0-9a-f]{40}")

MAIN = "main"

BESIDE = (
    "config.json",
    "generation_config.json",
    "preprocessor_config.json",
    "tokenizer*",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.*",
    "merges.txt",
    "*.model",
)
"""What is read beside weights: never code."""

WEIGHTS = (
    ("*.safetensors", "*.safetensors.index.json"),
    ("pytorch_model*.bin", "pytorch_model.bin.index.json"),
    ("onnx/model.onnx", "onnx/model.onnx_data*"),
    ("model.onnx", "model.onnx_data*", "model.onnx.data"),
    ("*.gguf",),
)
"""Weights in the forms that can be imported: the first one that is there is taken, alone."""


def extract(reference: Reference, target: Path) -> None:
    """Download one file of one commit.

    Raises:
        FetchError: The client isn't installed, can't reach the hub, or doesn't find the file.
    """
    with scratch_folder(target.parent) as folder, _client(str(reference)):
        _download(reference.name, reference.version, reference.member, folder).replace(target)


def commit_of(name: str, revision: str) -> str:
    """The commit that a branch or tag of a folder is at now; a commit is its own.

    Raises:
        FetchError: As `extract`.
    """
    if COMMIT.fullmatch(revision):
        return revision
    with _client(f"hf:{name}@{revision}"):
        from huggingface_hub import HfApi

        commit = HfApi(endpoint=_endpoint()).model_info(name, revision=revision).sha
    if commit is None:
        raise FetchError(f"hf:{name}@{revision}", "the hub doesn't say which commit it is")
    return commit


def folder(name: str, commit: str) -> Path:
    """What an import needs of a folder on the hub: its configuration, tokenizer and weights.

    Args:
        name: `OWNER/NAME`.
        commit: Names the content of all files, so it is the pin.

    Returns:
        A folder called NAME, kept in the cache. Don't write to it.

    Raises:
        FetchError: As `extract`, or there are no weights in a form that can be imported.
    """
    what = f"hf:{name}@{commit}"
    target = cache_dir() / "hub" / commit / name.rpartition("/")[2]
    if target.is_dir():
        return target
    with _client(what):
        from huggingface_hub import HfApi

        found = HfApi(endpoint=_endpoint()).model_info(name, revision=commit).siblings or []
    wanted = needed(what, [file.rfilename for file in found])
    with writing(), scratch_folder(target.parents[1]) as scratch, _client(what):
        fresh = scratch / target.name
        for path in wanted:
            _download(name, commit, path, fresh)
        target.parent.mkdir(exist_ok=True)
        fresh.replace(target)
    return target


def needed(what: str, files: Sequence[str]) -> list[str]:
    """Those of a folder's files that an import reads.

    Raises:
        FetchError: There are no weights among them; the message says which files there are.
    """
    for patterns in WEIGHTS:
        # A pattern without a folder is for files at the top alone.
        weights = list(_matching(files, patterns))
        if weights:
            return [*_matching(files, BESIDE), *weights]
    raise FetchError(
        what,
        f"there are no weights to import among its {len(files)} files",
        f"Name one of them as {what}#PATH: {', '.join(sorted(files)[:8])}.",
    )


def _matching(files: Sequence[str], patterns: Sequence[str]) -> Iterator[str]:
    for file in files:
        for pattern in patterns:
            if file.count("/") == pattern.count("/") and fnmatch.fnmatchcase(file, pattern):
                yield file
                break


def _download(name: str, commit: str, path: str, folder: Path) -> Path:
    from huggingface_hub import hf_hub_download

    found = hf_hub_download(name, path, revision=commit, local_dir=folder, endpoint=_endpoint())
    return Path(found)


def _endpoint() -> str | None:
    return os.environ.get("HF_ENDPOINT")


@contextmanager
def _client(what: str) -> Iterator[None]:
    """Turn the client's errors into ours; it prints nothing meanwhile."""
    try:
        from huggingface_hub import errors
        from huggingface_hub.utils.tqdm import disable_progress_bars
    except ModuleNotFoundError as error:
        raise FetchError(
            what,
            "the hub's client isn't installed",
            "Install it: pip install 'onnxsite[hub]'.",
        ) from error
    disable_progress_bars()
    try:
        yield
    except (errors.HfHubHTTPError, errors.LocalEntryNotFoundError) as error:
        for name, (why, remedy) in FAULTS.items():
            if isinstance(error, getattr(errors, name)):
                raise FetchError(what, why, remedy) from error
        raise FetchError(what, f"it can't be downloaded ({error})") from error
    except Exception as error:
        # Questions fail with what the client's own client raises; downloads have their own error.
        if not type(error).__module__.startswith("http"):
            raise
        raise FetchError(what, *FAULTS["LocalEntryNotFoundError"]) from error
