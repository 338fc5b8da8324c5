"""Everything that a recipe names, on this disk: its source, if that is to be fetched, and files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from builder.errors import FetchError, UsageError
from builder.fetch import hub
from builder.fetch.files import fetch, obtain
from builder.fetch.reference import HUB, is_reference, parse
from builder.model import Event, Model
from builder.recipe import ModelRecipe, Pinned


@dataclass(frozen=True)
class Located:
    """A recipe with what it names.

    Attributes:
        recipe: With its source pinned: a hash, or the commit of a folder on a hub.
        files: Paths by the names of its `files`, and that of its source by itself, if it was
            fetched.
        events: What a recipe should say, and this one doesn't.
    """

    recipe: ModelRecipe
    files: Mapping[str, Path]
    events: tuple[Event, ...] = ()

    def tell(self, model: Model) -> None:
        """Put hash, address and events on a model that was imported from here."""
        if is_reference(self.recipe.source):
            origin = model.provenance
            model.provenance = replace(
                origin,
                sha256=self.recipe.sha256 or origin.sha256,
                url=origin.url or _url(self.recipe.source),
                revision=origin.revision or _revision(self.recipe.source),
            )
        model.events[:0] = self.events


def locate(recipe: ModelRecipe, *, base: Path) -> Located:
    """Fetch what a recipe names.

    A source without a hash is taken as it comes, which an event says with the hash to pin: an
    exact version of a package doesn't change, an address may. `files` must have theirs.

    Args:
        recipe: What was asked for.
        base: The folder that relative paths start from.

    Raises:
        FetchError: Something can't be fetched, or isn't what is pinned.
        UsageError: A hash is given for what isn't fetched.
    """
    files = {name: fetch(pinned, base=base) for name, pinned in recipe.files.items()}
    source = recipe.source
    if not is_reference(source):
        if recipe.sha256 is not None:
            raise UsageError(
                f"sha256 of {source}",
                "it is for sources that are fetched",
                "Leave it out, or pin a local file under files.",
            )
        return Located(recipe, files)
    match = HUB.fullmatch(source) if source.startswith("hf:") else None
    if source.startswith("hf:") and match is None:
        raise FetchError(source, "it names nothing on a hub", "Write hf:OWNER/NAME@COMMIT#PATH.")
    events = []
    if match is not None:
        name, revision, member = match.groups()
        commit = hub.commit_of(name, revision or hub.MAIN)
        source = f"hf:{name}@{commit}" + (f"#{member}" if member else "")
        if commit != revision:
            said = f"{revision or hub.MAIN} of {name} is at commit {commit}: pin {source}"
            events.append(Event("warning", "fetch", said))
        if not member:
            if recipe.sha256 is not None:
                raise UsageError(
                    f"sha256 of {source}", "a commit pins a whole folder", "Leave it out."
                )
            recipe = recipe.model_copy(update={"source": source})
            return Located(recipe, {**files, source: hub.folder(name, commit)}, tuple(events))
    if recipe.sha256 is not None:
        path, digest = fetch(Pinned(ref=source, sha256=recipe.sha256)), recipe.sha256
    else:
        path, digest = obtain(source)
        said = (
            f"{source} isn't pinned, so another file may come tomorrow; "
            f"this one has --sha256 {digest}"
        )
        events.append(Event("warning", "fetch", said))
    pinned = recipe.model_copy(update={"source": source, "sha256": digest})
    return Located(pinned, {**files, source: path}, tuple(events))


def _url(source: str) -> str | None:
    """An address for people, if a source has one that is known."""
    match = HUB.fullmatch(source)
    if match:
        return f"https://huggingface.co/{match[1]}"
    reference = parse(source)
    return reference.name if reference and reference.kind == "web" else None


def _revision(source: str) -> str | None:
    """The commit or the package's version."""
    match = HUB.fullmatch(source)
    if match:
        return match[2]
    reference = parse(source)
    return f"{reference.kind}:{reference.package}" if reference and reference.version else None
