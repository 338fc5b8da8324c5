"""Running a graph leaves the caller's arrays as they were, and many runs keep their order."""

from __future__ import annotations

import numpy as np
import pytest

from builder import passes
from builder.errors import UnsupportedError
from builder.precision import FORMS, Subject
from builder.session import Session
from tests.node_cases import case
from tests.precision.small import normal


def test_running_means_are_not_written_into_the_feed() -> None:
    found = case("test_batchnorm_epsilon_training_mode")
    assert found is not None
    reference = found.reference()
    model = passes.normalise(found.model(), probes=[reference.inputs])
    form = next(form for form in FORMS if form.name == "fp16-half")
    made = form.convert(Subject(model, [reference]), frozenset())
    assert made is not None
    before = found.inputs["mean"].tobytes()
    Session(made.ir).run(found.inputs)
    assert found.inputs["mean"].tobytes() == before


def test_runs_side_by_side_come_in_order() -> None:
    model = normal("g (float[n] x) => (float[n] y) { y = Mul(x, x) }")
    session = Session(model.ir)
    # The first take longest: whatever ends first must still wait for them.
    runs = [{"x": np.full(10 ** (6 - index), index, np.float32)} for index in range(6)]
    results = session.each(iter(runs))
    assert [float(result["y"][0]) for result in results] == [0, 1, 4, 9, 16, 25]


def test_a_run_that_fails_is_told_among_many() -> None:
    model = normal("g (float[a] x, float[b] z) => (float[c] y) { y = Add(x, z) }")
    good = {"x": np.ones(2, np.float32), "z": np.ones(2, np.float32)}
    results = Session(model.ir).each([good, {**good, "z": np.ones(3, np.float32)}])
    np.testing.assert_array_equal(next(results)["y"], [2, 2])
    with pytest.raises(UnsupportedError, match="fails when run"):
        next(results)
