"""Files out of model folders on the Hugging Face Hub, by its own client."""

from __future__ import annotations

import os
from pathlib import Path

from builder.errors import FetchError
from builder.fetch.disk import scratch_folder
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


def extract(reference: Reference, target: Path) -> None:
    """Download one file of one commit.

    Raises:
        FetchError: The client isn't installed, can't reach the hub, or doesn't find the file.
    """
    try:
        from huggingface_hub import errors, hf_hub_download
        from huggingface_hub.utils.tqdm import disable_progress_bars
    except ModuleNotFoundError as error:
        raise FetchError(
            str(reference),
            "the hub's client isn't installed",
            "Install it: pip install 'onnxsite[hub]'.",
        ) from error
    disable_progress_bars()
    with scratch_folder(target.parent) as folder:
        try:
            path = hf_hub_download(
                reference.name,
                reference.member,
                revision=reference.version,
                local_dir=folder,
                endpoint=os.environ.get("HF_ENDPOINT"),
            )
        except (errors.HfHubHTTPError, errors.LocalEntryNotFoundError) as error:
            for name, (why, remedy) in FAULTS.items():
                if isinstance(error, getattr(errors, name)):
                    raise FetchError(str(reference), why, remedy) from error
            raise FetchError(str(reference), f"it can't be downloaded ({error})") from error
        Path(path).replace(target)
