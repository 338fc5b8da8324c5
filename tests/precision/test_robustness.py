"""Operators of onnx's own suite through the whole path: right, or refused with a reason.

Sampled (every 12th of about 1,250 float cases), because the whole set takes minutes.
"""

from __future__ import annotations

import pytest

from builder import passes
from builder.errors import OnnxsiteError
from builder.passes.check import validate
from builder.precision import FORMS, Demand, Subject, int4, int8, judge
from builder.session import Session
from tests.node_cases import Case, cases

STEP = 12

NOTHING_TO_DO = (
    "no product or tied table",
    "no convolution or product to compute in 8 bits",
    "no product that is large enough",
)
"""Why forms that compute in other types refuse most cases."""


@pytest.fixture(scope="module")
def sample() -> list[Case]:
    return list(cases(STEP))


def test_node_cases_are_right_or_refused(
    sample: list[Case], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(int8, "INT8_ELEMENTS", 4)
    monkeypatch.setattr(int8, "FP16_ELEMENTS", 2)
    monkeypatch.setattr(int4, "ELEMENTS", 4)
    right, refused, wrong = 0, [], []
    for case in sample:
        reference = case.reference()
        try:
            model = passes.normalise(case.model(), probes=[reference.inputs])
        except OnnxsiteError as error:
            refused.append((case.name, error.why))
            continue
        subject = Subject(model, [reference])
        for form in FORMS:
            try:
                made = form.convert(subject, frozenset())
                if made is None:
                    continue
            except OnnxsiteError as error:
                if not any(said in error.why for said in NOTHING_TO_DO):
                    refused.append((case.name, error.why))
                continue
            validate(made.ir, model.signature)  # what isn't refused must be valid
            # The graph itself and, where it computes in half, its emulation.
            for session in (Session(made.ir), form.session(made.ir)):
                result = session.run(reference.inputs)
                verdict = judge(form.dtype, [reference.outputs], [result], Demand("snr"))
                right += verdict.passed
                wrong += [] if verdict.passed else [(case.name, form.name, verdict.reason)]
    assert wrong == []
    assert all(reason for _, reason in refused)
    assert right > 1000
    assert len(refused) < 0.1 * right
