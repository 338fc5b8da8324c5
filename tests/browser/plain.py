"""A host that does nothing for a site: Python's own server, with the site in a folder of it."""

from __future__ import annotations

import functools
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from builder import pipeline, plan
from builder.recipe import Recipe
from tests.browser.site import DTYPES

FOLDER = "repo"
PAGE = "models/magika/?device=wasm"


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_words: Any) -> None:
        """Nothing is said."""


@dataclass
class Host:
    """A running server; `url` is the address of the site's root."""

    root: Path
    server: ThreadingHTTPServer

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}/{FOLDER}/"

    @property
    def page(self) -> str:
        """The address of a model's page, on WASM."""
        return self.url + PAGE

    def put(self, site: Path) -> None:
        """Upload a site in the place of what is there.

        Every upload is newer than the one before, as it is on a real host: the server tells
        versions apart by `Last-Modified`, which counts in seconds.
        """
        target = self.root / FOLDER
        if target.exists():
            shutil.rmtree(target)
            time.sleep(1)
        shutil.copytree(site, target, copy_function=shutil.copyfile)

    def stop(self) -> None:
        """No connection is accepted any more."""
        self.server.shutdown()
        self.server.server_close()


@contextmanager
def hosted(root: Path, site: Path) -> Iterator[Host]:
    """Serve `site` from a folder below `root` as long as the block lasts."""
    handler = functools.partial(_Quiet, directory=str(root))
    host = Host(root, ThreadingHTTPServer(("127.0.0.1", 0), handler))
    host.put(site)
    thread = threading.Thread(target=host.server.serve_forever, daemon=True)
    thread.start()
    try:
        yield host
    finally:
        host.stop()
        thread.join()


def build(out: Path, **settings: Any) -> Path:
    """A site of one model, with `settings` of its recipe, for a host that compresses text."""
    dtypes: Any = DTYPES.split(",")
    recipe = Recipe(host="cloudflare-pages", **settings)
    made = plan.make(["zoo:magika"], out, recipe=recipe, flags=plan.Flags(dtypes=dtypes))
    pipeline.run(made)
    return out
