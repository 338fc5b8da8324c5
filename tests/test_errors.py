"""Errors say what, why and what to do, also after a trip through a process pool."""

from __future__ import annotations

import pickle

from builder import errors


def test_the_message_has_three_parts() -> None:
    error = errors.SourceError("net.onnx", "it's empty", "Export it again.")
    assert str(error) == "net.onnx: it's empty. Export it again."
    assert str(errors.GateError("model", "no variant is right")) == "model: no variant is right."


def test_it_survives_pickling() -> None:
    error = errors.FetchError("pypi:x==1#y", "gone", "Pin another.")
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), copy.what, copy.why, copy.remedy) == (
        errors.FetchError,
        "pypi:x==1#y",
        "gone",
        "Pin another.",
    )


def test_wrong_calls_and_failed_builds_have_their_own_exit_codes() -> None:
    assert errors.UsageError("a", "b").exit_code == 2
    assert errors.OutputError("a", "b").exit_code == 1
