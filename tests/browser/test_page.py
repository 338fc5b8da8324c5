"""The pages as a user drives them: samples, files, keyboard, phone, dark; right answers shown."""

from __future__ import annotations

import io
import re
import urllib.request
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from builder.verify import Browser
from tests.browser import drive
from tests.browser.site import MODELS, Site, stage

ENGINES = ("chromium", "firefox", "webkitgtk")

FACE = (182, 58, 270, 178)
"""The one face in scikit-image's astronaut, in its pixels; found by another CenterFace pipeline."""

FACE_SLACK = 12
"""Pixels by which each edge may be off: a tenth of the face."""


def open_page(browser: Browser, site: Site, model: str, query: str = "?device=wasm") -> None:
    """Open a model's page; wasm, since software adapters take half a minute to start."""
    browser.goto(f"{site.url}models/{model}/{query}")


@pytest.mark.parametrize("browser", ENGINES, indirect=True)
def test_samples_get_their_right_labels(site: Site, browser: Browser) -> None:
    open_page(browser, site, "efficientnet-lite0")
    titles = [s["title"] for s in site.manifest("efficientnet-lite0")["samples"]]
    # Sources outside: chelsea and coffee of scikit-image, with the labels of ImageNet.
    for title, label in (("Cat", "Egyptian cat"), ("Cup of coffee", "espresso")):
        drive.click(browser, f"sample-{titles.index(title)}")
        # Five rows are there from the first sample on: wait for the right one, or time out.
        drive.until(
            browser,
            'return document.querySelector(`[data-testid="label-row"]`)?.innerText'
            ".includes(args[0])",
            label,
        )
        assert len(drive.result(browser, "label-row", 5)) == 5
    now = drive.ready(browser)
    assert now["badge"]["device"] == "wasm"
    assert (now["error"], now["fallback"]) == ("", "")


@pytest.mark.parametrize("browser", ENGINES, indirect=True)
def test_a_dropped_picture_shows_its_face(site: Site, browser: Browser) -> None:
    open_page(browser, site, "centerface")
    picture = site.sample("centerface", "Astronaut")
    drive.ready(browser)
    drive.drop(browser, [("astronaut.png", "image/png", picture)])
    drive.until(
        browser,
        "return document.querySelector('[data-testid=\"face-count\"]')?.textContent === '1 face';",
    )
    (row,) = drive.result(browser, "face-row")
    box = [
        int(number)
        for number in re.findall(r"(\d+), (\d+)", row)[0] + re.findall(r"(\d+), (\d+)", row)[1]
    ]
    assert box == pytest.approx(FACE, abs=FACE_SLACK)


@pytest.mark.parametrize("browser", ENGINES, indirect=True)
def test_dropped_files_get_their_types(site: Site, browser: Browser) -> None:
    open_page(browser, site, "magika")
    drive.ready(browser)
    drive.drop(
        browser,
        [
            ("a", "", Path(__file__).read_bytes()),
            ("b", "", site.sample("magika", "PNG picture")),
            ("c", "", b""),
        ],
    )
    rows = {row.split()[0]: row.split() for row in drive.result(browser, "file-row", 3)}
    assert "python" in rows["a"]
    assert "png" in rows["b"]
    assert "empty" in rows["c"]


def test_a_chosen_file(site: Site, chromium: Browser, tmp_path: Path) -> None:
    file = tmp_path / "picture.without-an-ending"
    file.write_bytes(site.sample("magika", "PNG picture"))
    open_page(chromium, site, "magika")
    chromium.driver.get_by_test_id("file-input").set_input_files(file)
    (row,) = drive.result(chromium, "file-row")
    assert "png" in row.split()


def test_a_picture_with_transparency_and_one_that_is_none(site: Site, chromium: Browser) -> None:
    open_page(chromium, site, "efficientnet-lite0")
    drive.ready(chromium)
    content = io.BytesIO()
    with Image.open(io.BytesIO(site.sample("efficientnet-lite0", "Cat"))) as cat:
        cat.convert("RGBA").save(content, "PNG")
    drive.drop(chromium, [("cat.png", "image/png", content.getvalue())])
    assert "Egyptian cat" in drive.result(chromium, "label-row", 5)[0]
    drive.drop(chromium, [("broken.png", "image/png", b"\x89PNG\r\n\x1a\nand no more")])
    assert "broken.png" in drive.fails(chromium)
    # The page goes on.
    drive.drop(chromium, [("cat.png", "image/png", content.getvalue())])
    drive.until(chromium, 'return document.querySelector(`[data-testid="error"]`).hidden;')
    assert drive.ready(chromium)["error"] == ""


@pytest.fixture
def reference_page(site: Site, chromium: Browser) -> Browser:
    open_page(chromium, site, "mixed", "?device=wasm&dtype=fp32")
    drive.ready(chromium)
    return chromium


def test_a_model_of_no_known_task_runs_its_reference(
    site: Site, reference_page: Browser, tmp_path: Path
) -> None:
    page = reference_page.driver
    page.get_by_test_id("use-reference").click()
    page.get_by_test_id("run").click()
    outputs = drive.result(reference_page, "output", 2)
    assert [text.split()[0] for text in outputs] == ["y", "picked"]
    stored = site.stored(site.manifest("mixed")["references"][0])
    expected = site.on_the_cpu("mixed", "model", "fp32", stored)
    for name in ("y", "picked"):
        block = page.locator(f'[data-testid="output"][data-name="{name}"]')
        with page.expect_download() as waiting:
            block.get_by_test_id("download-npy").click()
        saved = tmp_path / f"{name}.npy"
        waiting.value.save_as(saved)
        np.testing.assert_allclose(np.load(saved), expected[name], rtol=1e-5, atol=1e-6)
    assert re.search(r"\d", page.get_by_test_id("time").inner_text())


def test_a_model_of_no_known_task_takes_arrays_and_numbers(
    site: Site, reference_page: Browser, tmp_path: Path
) -> None:
    page = reference_page.driver
    stored = site.stored(site.manifest("mixed")["references"][0])
    x, ids, mask = stored["x"], stored["ids"], np.ones_like(stored["mask"])
    np.save(tmp_path / "x.npy", x)
    page.get_by_test_id("source-x").select_option("npy")
    page.get_by_test_id("npy-x").set_input_files(tmp_path / "x.npy")
    page.get_by_test_id("source-ids").select_option("numbers")
    page.get_by_test_id("numbers-ids").fill(" ".join(map(str, ids.tolist())))
    page.get_by_test_id("source-mask").select_option("numbers")
    page.get_by_test_id("numbers-mask").fill("1")
    page.get_by_test_id("run").click()
    drive.result(reference_page, "output", 2)
    with page.expect_download() as waiting:
        page.locator('[data-name="picked"]').get_by_test_id("download-npy").click()
    waiting.value.save_as(tmp_path / "picked.npy")
    expected = site.on_the_cpu("mixed", "model", "fp32", {"x": x, "ids": ids, "mask": mask})
    np.testing.assert_allclose(
        np.load(tmp_path / "picked.npy"), expected["picked"], rtol=1e-5, atol=1e-6
    )
    page.get_by_test_id("numbers-ids").fill("1.5")
    page.get_by_test_id("run").click()
    assert "ids" in drive.fails(reference_page)


@pytest.mark.parametrize("model", ["efficientnet-lite0", "mixed"])
def test_the_check_on_this_device_passes(site: Site, chromium: Browser, model: str) -> None:
    open_page(chromium, site, model)
    drive.ready(chromium)
    drive.click(chromium, "self-test")
    drive.until(
        chromium, 'return !document.querySelector(`[data-testid="self-test-result"]`).hidden'
    )
    rows = chromium.driver.get_by_test_id("self-test-result").locator("tbody tr")
    manifest = site.manifest(model)
    outputs = len(stage(manifest, "model")["outputs"])
    assert rows.count() == len(manifest["references"]) * outputs
    assert all("passed" in text for text in rows.all_inner_texts())


def test_by_keyboard_alone(site: Site, chromium: Browser) -> None:
    chromium.goto(site.url)
    page = chromium.driver
    reach(chromium, 'a[href$="models/efficientnet-lite0/"]')
    page.keyboard.press("Enter")
    page.wait_for_url("**/models/efficientnet-lite0/")
    page.goto(f"{page.url}?device=wasm")
    drive.ready(chromium)
    reach(chromium, '[data-testid="sample-1"]')
    page.keyboard.press("Enter")
    drive.until(
        chromium,
        'return document.querySelector(`[data-testid="label-row"]`)?.innerText.includes(args[0])',
        "espresso",
    )
    reach(chromium, '[data-testid="file-input"]')
    reach(chromium, '[data-testid="self-test"]')


def reach(browser: Browser, selector: str, limit: int = 60) -> None:
    """Press Tab until an element has the focus, which must then be seen."""
    for _ in range(limit):
        browser.driver.keyboard.press("Tab")
        if browser.evaluate("return document.activeElement.matches(args[0])", selector):
            break
    else:
        pytest.fail(f"Tab doesn't lead to {selector}")
    assert browser.evaluate("return document.activeElement.matches(':focus-visible')")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [320, 390, 1440])
def test_no_page_is_wider_than_the_screen(
    site: Site, chromium: Browser, scheme: str, width: int
) -> None:
    page = chromium.driver
    page.set_viewport_size({"width": width, "height": 800})
    page.emulate_media(color_scheme=scheme)
    try:
        for path in ("", *(f"models/{model}/" for model in MODELS), "404.html"):
            page.goto(f"{site.url}{path}?device=wasm", wait_until="domcontentloaded")
            if path == "models/efficientnet-lite0/":
                drive.click(chromium, "sample-0")
                drive.result(chromium, "label-row", 5)
            scroll, client = chromium.evaluate(
                "const { scrollWidth, clientWidth } = document.documentElement;"
                "return [scrollWidth, clientWidth];"
            )
            assert scroll <= client, path
            ground = chromium.evaluate("return getComputedStyle(document.body).backgroundColor")
            red, green, blue = map(int, re.findall(r"\d+", ground)[:3])
            # Luminance of ITU-R BT.709.
            bright = (0.2126 * red + 0.7152 * green + 0.0722 * blue) / 255
            assert bright > 0.85 if scheme == "light" else bright < 0.15, path
    finally:
        page.set_viewport_size({"width": 1280, "height": 720})
        page.emulate_media(color_scheme="light")


def test_the_gallery_leads_to_every_model(site: Site, chromium: Browser) -> None:
    chromium.goto(site.url)
    links = chromium.driver.get_by_test_id("model-card").locator("a")
    targets = [link.evaluate("a => a.href") for link in links.all()]
    assert sorted(targets) == sorted(f"{site.url}models/{model}/" for model in MODELS)
    for target in targets:
        with urllib.request.urlopen(target) as response:
            assert response.status == 200
