"""The site, built once and served by the real server, and browsers that look at it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from filelock import FileLock

from builder.cache import cache_dir
from builder.server import create_app, running
from builder.verify import Browser, launch
from tests.browser.site import Site, build


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """The showcase and a model of no known task."""
    # Of processes that test at once, the first builds, and the others take it from the cache.
    with FileLock(cache_dir() / "tests-site.lock"):
        folder = build(tmp_path_factory.mktemp("built"))
    with running(create_app(folder)) as url:
        yield Site(folder, url)


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """Chromium with WebGPU on its software adapter."""
    with launch("chromium") as browser:
        yield browser


@pytest.fixture(scope="module")
def firefox() -> Iterator[Browser]:
    """Firefox with WebGPU on Mesa's software driver."""
    with launch("firefox") as browser:
        yield browser


@pytest.fixture(scope="module")
def webkitgtk() -> Iterator[Browser]:
    """Safari's engine."""
    with launch("webkitgtk") as browser:
        yield browser


@pytest.fixture
def browser(request: pytest.FixtureRequest) -> Browser:
    """The browser that a test is parametrised with."""
    found: Browser = request.getfixturevalue(request.param)
    return found
