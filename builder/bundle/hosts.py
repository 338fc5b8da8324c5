"""What each kind of host allows, and the configuration that it wants."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from builder.bundle.host_files import WRITERS, Kind, OwnHeaders
from builder.errors import HostError
from builder.partition import SHARD_BYTES

MB, MIB, GB = 10**6, 1024**2, 10**9


@dataclass(frozen=True)
class HostProfile:
    """A row of `HOSTS`. Limits are what the free plan allows; None means none that matters.

    Attributes:
        name: As `--host` takes it.
        title: For people.
        max_file: Largest file in bytes.
        max_files: Most files in a site.
        max_total: Largest site in bytes.
        headers: The configuration it reads, a key of `builder.bundle.host_files.WRITERS`.
        compresses: Compresses text by itself, so that precompressed twins of pages and scripts are
            dead weight. None is known to compress files without a media type of their own.
        negotiates: Sends a file's precompressed twin, by the configuration written for it, so that
            the page needn't ask for the twin and inflate it.
        sets_headers: Whether the site can have COOP and COEP there, and so wasm threads.
        notes: What else somebody who hosts there must know, one sentence each.
    """

    name: str
    title: str
    max_file: int | None = None
    max_files: int | None = None
    max_total: int | None = None
    headers: Kind = "none"
    compresses: bool = False
    negotiates: bool = False
    sets_headers: bool = True
    notes: tuple[str, ...] = ()

    @property
    def shard_bytes(self) -> int:
        """Largest shard of weights and of the runtime's wasm."""
        return SHARD_BYTES if self.max_file is None else min(SHARD_BYTES, self.max_file)


ROWS = (
    HostProfile(
        "generic",
        "any static host",
        notes=("Send COOP `same-origin` and COEP `require-corp` if the host lets you.",),
    ),
    HostProfile(
        "github-pages",
        "GitHub Pages",
        # A push with a bigger file is refused (GH001). docs.github.com, "About large files".
        max_file=100 * MIB,
        # Of the published site: docs.github.com, "GitHub Pages limits".
        max_total=1 * GB,
        headers="jekyll",
        compresses=True,
        sets_headers=False,
        notes=("It can't send COOP and COEP, so wasm runs on one thread.",),
    ),
    HostProfile(
        "cloudflare-pages",
        "Cloudflare Pages",
        # MAX_ASSET_SIZE and MAX_ASSET_COUNT of Cloudflare's own uploader, wrangler; 100,000 files
        # on paid plans since January 2026 (developers.cloudflare.com, Pages changelog).
        max_file=25 * MIB,
        max_files=20_000,
        headers="_headers",
        compresses=True,
    ),
    HostProfile(
        "netlify",
        "Netlify",
        # A limit on each directory; `files/` holds nearly everything. docs.netlify.com, "Deploys".
        max_files=54_000,
        headers="netlify",
        compresses=True,
    ),
    HostProfile(
        "vercel",
        "Vercel",
        # "Static File uploads: 100 MB" on the Hobby plan, 1 GB on Pro: of all files of an upload by
        # the command line. vercel.com/docs/limits.
        max_files=15_000,
        max_total=100 * MB,
        headers="vercel",
        compresses=True,
    ),
    HostProfile(
        "s3",
        "S3 and other object stores",
        # Largest object of a single PUT; AWS documentation, "Uploading objects".
        max_file=5 * 1024**3,
        sets_headers=False,
        notes=(
            "The store itself can't send COOP and COEP: a CDN in front of it can (on CloudFront, a "
            "response headers policy).",
            "Upload `*.br` or `*.gz` in the place of the originals, with Content-Encoding, or let "
            "the CDN compress.",
        ),
    ),
    HostProfile(
        "npm-cdn",
        "a CDN that serves npm packages",
        # jsDelivr refuses npm packages over 150 MB: README of github.com/jsdelivr/
        # data.jsdelivr.com, "Restrictions". 50 MB a file is from secondary sources.
        max_file=50 * MB,
        max_total=150 * MB,
        compresses=True,
        sets_headers=False,
        notes=(
            "HTML is served as text there: host the pages elsewhere.",
            "A worker can't be started from another origin: import the runtime from your own.",
        ),
    ),
    HostProfile(
        "nginx",
        "nginx",
        headers="nginx",
        negotiates=True,
        notes=("Include nginx.conf in the server block.",),
    ),
    HostProfile(
        "apache",
        "Apache",
        headers="apache",
        negotiates=True,
        notes=("Needs AllowOverride FileInfo.",),
    ),
)

HOSTS: dict[str, HostProfile] = {profile.name: profile for profile in ROWS}
"""By the name that recipes and `--host` use."""


def host_files(profile: HostProfile, own: OwnHeaders) -> dict[str, bytes]:
    """The configuration files of a host, by their names in the site's root.

    Args:
        profile: The host.
        own: Headers that single files want, beside those of all, by path below the root.
    """
    return {name: text.encode() for name, text in WRITERS[profile.headers](own).items()}


def check(profile: HostProfile, files: Mapping[str, int]) -> None:
    """Hold a site against a host's limits.

    Args:
        profile: The host.
        files: Bytes of every file, by path below the site's root.

    Raises:
        HostError: Names the largest file that breaks the limit, its size and the limit; or how far
            the whole site is above it.
    """
    largest = max(files, key=lambda path: (files[path], path), default="")
    if largest and profile.max_file is not None and files[largest] > profile.max_file:
        raise HostError(
            largest,
            f"it has {files[largest]:,} bytes; {profile.title} takes {profile.max_file:,} a file",
            "Choose another host with --host.",
        )
    if profile.max_files is not None and len(files) > profile.max_files:
        raise HostError(
            "site",
            f"it has {len(files):,} files; {profile.title} takes {profile.max_files:,} at most",
            "Build fewer models into one site, or choose another host with --host.",
        )
    total = sum(files.values())
    if profile.max_total is not None and total > profile.max_total:
        raise HostError(
            "site",
            f"it has {total:,} bytes, {largest} alone {files[largest]:,}; {profile.title} takes "
            f"{profile.max_total:,} at most",
            "Build fewer models into one site, leave out variants with --dtype, or choose another "
            "host with --host.",
        )
