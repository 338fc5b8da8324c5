"""Running a graph leaves the caller's arrays as they were."""

from __future__ import annotations

from builder import passes
from builder.precision import FORMS, Subject
from builder.session import Session
from tests.node_cases import case


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
