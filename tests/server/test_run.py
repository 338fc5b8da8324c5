"""The server as a process: the address it prints, ports that are taken, and Ctrl-C."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from builder.errors import UsageError
from builder.server import create_app, running, serve

ROOT = Path(__file__).resolve().parents[2]


def test_running_serves_as_long_as_the_block_lasts(site: Path) -> None:
    app = create_app(site, prefix="/repo/")
    with running(app, prefix="/repo/") as address:
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/repo/", address)
        with urllib.request.urlopen(address) as response:
            assert b"gallery" in response.read()
    with pytest.raises(urllib.error.URLError, match="refused"):
        urllib.request.urlopen(address)


def test_the_next_free_port_is_taken_and_said(site: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        server = subprocess.Popen(
            [sys.executable, "serve.py", str(site), "--port", str(port)],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert server.stdout is not None
        said, serving = server.stdout.readline(), server.stdout.readline()
    found = re.search(r"http://127\.0\.0\.1:(\d+)/", serving)
    assert found is not None
    assert said == f"Port {port} is taken; using {found[1]}.\n"
    with urllib.request.urlopen(found[0]) as response:
        assert response.headers["Server"] == "onnxsite"
    server.send_signal(signal.SIGINT)
    _, errors = server.communicate(timeout=30)
    assert (server.returncode, errors) == (0, "")


def test_an_address_that_is_not_ours(site: Path) -> None:
    # 192.0.2.0/24 is for documentation (RFC 5737): no machine has it.
    with pytest.raises(UsageError, match=r"192\.0\.2\.1.*can't be listened on"):
        serve(site, "192.0.2.1", 8000)


def test_not_a_site_ends_with_exit_code_2(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "serve.py", str(tmp_path / "nothing")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 2
    assert "there is no such folder" in ended.stderr
