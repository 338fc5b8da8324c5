"""An output folder is replaced as a whole, or not at all."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from builder.bundle.output import MARKER, replacing
from builder.errors import OutputError


def build(out: Path, content: str) -> None:
    with replacing(out) as staging:
        (staging / "index.html").write_text(content)


def only_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_second_build_replaces_the_first(tmp_path: Path) -> None:
    out = tmp_path / "site"
    build(out, "one")
    (out / "stale.txt").write_text("from the first build")
    build(out, "two")
    assert (out / "index.html").read_text() == "two"
    assert only_in(out) == [MARKER, "index.html"]
    assert only_in(tmp_path) == ["site"]


def test_a_folder_that_is_not_ours_is_refused_untouched(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(OutputError, match="wasn't built here"):
        build(tmp_path, "site")
    assert only_in(tmp_path) == ["thesis.tex"]


def test_a_file_is_refused(tmp_path: Path) -> None:
    out = tmp_path / "site"
    out.write_text("a file")
    with pytest.raises(OutputError, match="it's a file"):
        build(out, "site")
    assert out.read_text() == "a file"


def test_an_empty_folder_is_taken(tmp_path: Path) -> None:
    build(tmp_path / "site", "x")
    (tmp_path / "empty").mkdir()
    build(tmp_path / "empty", "x")
    assert (tmp_path / "empty" / MARKER).is_file()


@pytest.mark.parametrize(
    ("failure", "raised"),
    [(RuntimeError("bug"), RuntimeError), (KeyboardInterrupt(), KeyboardInterrupt)],
)
def test_whatever_stops_a_build_the_old_output_stays(
    tmp_path: Path, failure: BaseException, raised: type[BaseException]
) -> None:
    out = tmp_path / "site"
    build(out, "good")
    with pytest.raises(raised), replacing(out) as staging:
        (staging / "index.html").write_text("half")
        raise failure
    assert (out / "index.html").read_text() == "good"
    assert only_in(tmp_path) == ["site"]


def test_a_full_disk_is_named(tmp_path: Path) -> None:
    out = tmp_path / "site"
    build(out, "good")
    # /dev/full answers every write with ENOSPC, as a full disk does.
    with pytest.raises(OutputError, match="no space is left"), replacing(out) as staging:
        (staging / "weights.bin").symlink_to("/dev/full")
        with (staging / "weights.bin").open("wb", buffering=0) as file:
            file.write(b"x" * 100)
    assert (out / "index.html").read_text() == "good"
    assert only_in(tmp_path) == ["site"]


def test_what_a_killed_build_left_is_swept_by_the_next(tmp_path: Path) -> None:
    code = (
        "import sys, time; from pathlib import Path; from builder.bundle.output import replacing\n"
        "with replacing(Path(sys.argv[1])) as staging: print('in', flush=True); time.sleep(60)"
    )
    out = tmp_path / "site"
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(out)], stdout=subprocess.PIPE, cwd=Path.cwd()
    )
    assert process.stdout is not None
    process.stdout.readline()
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()
    assert [name.endswith(".new") for name in only_in(tmp_path)] == [True]
    build(out, "good")
    assert only_in(tmp_path) == ["site"]
