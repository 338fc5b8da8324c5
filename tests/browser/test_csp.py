"""The pages under the strictest policy that a host may send, and what their own policy refuses."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from flask import Response

from builder.server import create_app, running
from builder.verify import Browser, PageError
from tests.browser import drive
from tests.browser.site import Site

STRICT = (
    "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; worker-src 'self'; "
    "connect-src 'self'; img-src 'self' blob:; style-src 'self'; manifest-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""For every answer, the worker's and the runtime's included: no eval, no blob: scripts."""


@pytest.fixture
def strict(site: Site) -> Iterator[str]:
    app = create_app(site.folder)

    def add(response: Response) -> Response:
        response.headers["Content-Security-Policy"] = STRICT
        return response

    app.after_request(add)
    with running(app) as url:
        yield url


def refusals(browser: Browser) -> list[str]:
    words = ("content security policy", "content-security-policy", "violates", "blocked", "trusted")
    return [line for line in browser.console if any(word in line.lower() for word in words)]


@pytest.mark.parametrize("browser", ["chromium", "firefox"], indirect=True)
def test_wasm_runs_under_a_strict_policy(site: Site, browser: Browser, strict: str) -> None:
    violated: list[str] = []
    browser.driver.expose_function("violated", lambda what: violated.append(what))
    browser.driver.add_init_script(
        "addEventListener('securitypolicyviolation',"
        " ({ violatedDirective, blockedURI }) => violated(`${violatedDirective} ${blockedURI}`))"
    )
    browser.goto(f"{strict}models/efficientnet-lite0/?device=wasm")
    now: Any = drive.ready(browser)
    assert now["fallback"] == ""
    assert int(now["badge"]["threads"]) > 1
    drive.drop(browser, [("cat.png", "image/png", site.sample("efficientnet-lite0", "Cat"))])
    # chelsea of scikit-image, with its label of ImageNet.
    assert "Egyptian cat" in drive.result(browser, "label-row", 5)[0]
    browser.goto(strict)
    assert (violated, refusals(browser)) == ([], [])


INJECTED = {
    "inline": "const s = document.createElement('script'); s.textContent = 'globalThis.bad = 1';"
    " document.head.append(s);",
    "markup": "document.body.innerHTML = '<img src=x onerror=\"globalThis.bad = 1\">';",
    "blob": "const u = URL.createObjectURL(new Blob(['postMessage(1)'])); new Worker(u);",
}


@pytest.mark.parametrize("kind", INJECTED)
@pytest.mark.parametrize("browser", ["chromium", "firefox"], indirect=True)
def test_the_pages_own_policy_refuses_scripts_from_text(
    site: Site, browser: Browser, kind: str
) -> None:
    browser.goto(f"{site.url}models/mixed/?device=wasm")
    with pytest.raises(PageError) as caught:
        browser.evaluate(INJECTED[kind])
    assert caught.value.name == "TypeError"
    assert browser.evaluate("return globalThis.bad ?? null") is None


def test_a_script_that_was_changed_on_the_host_does_not_run(
    site: Site, chromium: Browser, tmp_path: Path
) -> None:
    folder = tmp_path / "site"
    shutil.copytree(site.folder, folder)
    (script,) = folder.glob("assets/model-*.js")
    script.write_bytes(script.read_bytes() + b"\nglobalThis.bad = 1;\n")
    for ending in (".br", ".gz"):
        script.with_name(script.name + ending).unlink()
    with running(create_app(folder)) as url:
        chromium.goto(f"{url}models/mixed/?device=wasm")
        state, bad = chromium.evaluate(
            "return [document.getElementById('status').dataset.state, globalThis.bad ?? null]"
        )
        assert (state, bad) == ("idle", None)
