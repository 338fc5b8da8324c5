"""`inspect --netron` serves the graph, opens a browser on it, and ends with Ctrl-C."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from urllib.request import urlopen

PATIENCE = 60.0
"""Seconds."""


def test_the_graph_is_drawn(model_file: Path, tmp_path: Path) -> None:
    told = tmp_path / "address"
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\nprintf %s "$1" > "{told}.part" && mv "{told}.part" "{told}"\n')
    browser.chmod(0o755)
    command = [sys.executable, "-m", "builder", "inspect", str(model_file), "--netron"]
    with subprocess.Popen(
        command,
        env={**os.environ, "BROWSER": str(browser)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as process:
        try:
            started = time.monotonic()
            while not told.exists() and process.poll() is None:
                assert time.monotonic() < started + PATIENCE
                time.sleep(0.1)
            assert process.poll() is None, process.communicate()[0]
            with urlopen(f"{told.read_text()}/data/model.onnx") as answer:
                assert b"logits" in answer.read()
            process.send_signal(signal.SIGINT)
            assert process.wait(PATIENCE) == 0
        finally:
            process.kill()
