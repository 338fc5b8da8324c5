"""What names a file of a published package, of a hub or of a web server."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from builder.errors import FetchError

REFERENCES = {
    "pypi": re.compile(r"pypi:([A-Za-z0-9][\w.-]*)==(\d[\w.+!-]*)#(.+)"),
    "hf": re.compile(r"hf:([\w.-]+/[\w.-]+)@([0-9a-f]{40})#(.+)"),
    "npm": re.compile(r"npm:((?:@[\w-][\w.-]*/)?[A-Za-z0-9][\w.-]*)@(\d+\.\d+\.\d+[\w.+-]*)#(.+)"),
}
"""Name, exact version, path. A hub's branches and tags move, so there it is a commit.

Strict: `user/repo` would make npm clone and build a repository.
"""

HUB = re.compile(r"hf:([\w.-]+/[\w.-]+)(?:@([\w.-]+))?(?:#(.+))?")
"""A source on a hub: without a commit it is what `main` is today, without a path the folder."""

WEB = ("https", "http")

PREFIXES = (*(f"{kind}:" for kind in REFERENCES), *(f"{scheme}://" for scheme in WEB))

PIN = re.compile(r"(.+)#sha256=([0-9a-fA-F]{64})")

FORM = (
    "Write pypi:NAME==VERSION#PATH, npm:NAME@VERSION#PATH, hf:OWNER/NAME@COMMIT#PATH or an address"
    " that begins with https://."
)


@dataclass(frozen=True)
class Reference:
    """A file inside one version of a package, of one commit on a hub, or at an address.

    Attributes:
        kind: A key of `REFERENCES`, or `web`.
        name: Of the package or folder, or the whole address.
        version: Exact version or commit; empty for `web`.
        member: Path inside; of an address, the last part of its path. Empty for a whole folder.
    """

    kind: str
    name: str
    version: str
    member: str

    @property
    def package(self) -> str:
        """The package with its version, as its client writes it."""
        return f"{self.name}{'==' if self.kind == 'pypi' else '@'}{self.version}"

    def __str__(self) -> str:
        """As a recipe writes it."""
        if self.kind == "web":
            return self.name
        return f"{self.kind}:{self.package}" + (f"#{self.member}" if self.member else "")


def is_reference(text: str) -> bool:
    """Whether a source is to be fetched, by how it begins."""
    return text.startswith(PREFIXES)


def split_pin(source: str) -> tuple[str, str | None]:
    """A source without its `#sha256=HEX`, and that hash if it has one."""
    match = PIN.fullmatch(source)
    return (match[1], match[2].lower()) if match else (source, None)


def label(source: str) -> str:
    """What a reference is called by people: its file's name, else that of its folder."""
    place, _, member = source.partition("#")
    if place.startswith(tuple(WEB)):
        return file_name(place)
    return (member or place.removeprefix("hf:").split("@")[0]).rstrip("/").rpartition("/")[2]


def parse(ref: str) -> Reference | None:
    """Take a reference apart; None for a local path.

    Raises:
        FetchError: It starts like a reference but isn't one.
    """
    for kind, pattern in REFERENCES.items():
        match = pattern.fullmatch(ref)
        if match:
            return Reference(kind, *match.groups())
        if ref.startswith(f"{kind}:"):
            raise FetchError(ref, "it isn't a reference to a file of an exact version", FORM)
    return _address(ref) if is_reference(ref) else None


def file_name(address: str) -> str:
    """The last part of an address's path, as a file can be called."""
    last = unquote(urlsplit(address).path).rpartition("/")[2]
    return re.sub(r"[^\w.-]", "_", last).strip(".") or "download"


def _address(ref: str) -> Reference:
    try:
        parts = urlsplit(ref)
        host = parts.hostname
    except ValueError as error:
        raise FetchError(ref, f"it isn't an address ({error})", FORM) from error
    if not host:
        raise FetchError(ref, "there is no host in it", FORM)
    if parts.username or parts.password:
        raise FetchError(
            f"{parts.scheme}://{host}",
            "there is a name or password in the address, which would be published with the model",
            "Download the file by hand and name its path.",
        )
    if parts.fragment:
        raise FetchError(ref, "what follows # isn't sha256= and 64 hexadecimal digits")
    return Reference("web", ref, "", file_name(ref))
