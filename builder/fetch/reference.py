"""What a recipe writes to name a file inside a published package or hub folder."""

from __future__ import annotations

import re
from dataclasses import dataclass

from builder.errors import FetchError

REFERENCES = {
    "pypi": re.compile(r"pypi:([A-Za-z0-9][\w.-]*)==(\d[\w.+!-]*)#(.+)"),
    "hf": re.compile(r"hf:([\w.-]+/[\w.-]+)@([0-9a-f]{40})#(.+)"),
    "npm": re.compile(r"npm:((?:@[\w-][\w.-]*/)?[A-Za-z0-9][\w.-]*)@(\d+\.\d+\.\d+[\w.+-]*)#(.+)"),
}
"""Name, exact version, path. A hub's branches and tags move, so there it is a commit.

Strict: `user/repo` would make npm clone and build a repository.
"""

FORM = "Write pypi:NAME==VERSION#PATH, npm:NAME@VERSION#PATH or hf:OWNER/NAME@COMMIT#PATH."


@dataclass(frozen=True)
class Reference:
    """A file inside one version of a package, or one commit of a folder on a hub."""

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
        return f"{self.kind}:{self.package}#{self.member}"


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
    return None
