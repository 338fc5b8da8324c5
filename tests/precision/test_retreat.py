"""The ladder: which layers are kept wider, and in which order."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
from onnx import TensorProto, helper, numpy_helper

from builder import passes
from builder.model import Model, Provenance, Reference, Signature
from builder.precision import FORMS, Demand, Subject, make
from builder.precision.retreat import Retreat
from builder.session import Session

SIDE, LAYERS, WORST = 192, 14, 8
INT8 = next(form for form in FORMS if form.name == "int8")


def chain_of_products() -> Subject:
    """Fourteen rotations one after the other; in one of them each column has an entry that is 20
    times the others, which costs the others 20 times the precision.
    """
    rng = np.random.default_rng(3)
    weights = [np.linalg.qr(rng.normal(size=(SIDE, SIDE)))[0] for _ in range(LAYERS)]
    weights[WORST] += np.eye(SIDE) * 20 / SIDE**0.5
    names = ["x", *(f"h{i}" for i in range(LAYERS - 1)), "y"]
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", [names[i], f"w{i}"], [names[i + 1]], f"product{i}")
            for i in range(LAYERS)
        ],
        "chain",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, SIDE])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4, SIDE])],
        [numpy_helper.from_array(w.astype(np.float32), f"w{i}") for i, w in enumerate(weights)],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    loaded = ir.from_proto(proto)
    model = passes.normalise(Model(loaded, Signature.of(loaded.graph), Provenance("chain")))
    session = Session(model.ir)
    feeds = [{"x": rng.normal(size=(4, SIDE)).astype(np.float32)} for _ in range(4)]
    return Subject(model, [Reference(str(i), x, session.run(x)) for i, x in enumerate(feeds)])


def test_the_worst_layer_is_kept_wider_first() -> None:
    subject = chain_of_products()
    made = INT8.convert(subject, frozenset())
    assert made is not None
    rungs = list(Retreat(subject, INT8, made).rungs())
    assert [len(rung) for rung in rungs] == [1, 2, 3, 4, 6, 9]
    assert rungs[0] == [f"w{WORST}"]
    assert all(rung == rungs[-1][: len(rung)] for rung in rungs)


def test_the_first_rung_that_passes_is_taken() -> None:
    subject = chain_of_products()
    plain = make(subject, INT8, Demand("snr", tolerance=-200))
    assert plain is not None
    assert plain.verdict is not None
    asked = plain.verdict.snr + 1
    repaired = make(subject, INT8, Demand("snr", tolerance=asked))
    assert repaired is not None
    assert repaired.verdict is not None
    assert repaired.verdict.snr >= asked
    assert [step.verdict.passed for step in repaired.steps] == [False, True]
    assert plain.size < repaired.size < 0.9 * len(ir.to_proto(subject.ir).SerializeToString())
