"""Where the error comes from, by measurement, and what to keep wider in which order."""

from __future__ import annotations

from collections.abc import Iterator

from builder.errors import UnsupportedError
from builder.precision.forms import Converted, Form
from builder.precision.metrics import snr
from builder.precision.ranges import spread
from builder.precision.subject import Subject
from builder.snr import SNR_CAP

REFERENCES = 3
"""On which the error of one layer is measured."""

GROUPS = 40
"""Layers are measured alone, or, where there are more than this, with their neighbours."""

FIRST, LAST = 1 / 32, 7 / 8
"""Shares of the layers that are kept wider on the first and, at most, on the last rung; each rung
has half as many again as the one before. Where near ties decide, a metric isn't monotonous, and a
coarser ladder steps over what would do."""


class Retreat:
    """Ranks the layers of one form by the error that each makes alone.

    Args:
        subject: The model.
        form: Whose conversion failed its gate.
        made: What it gave.
    """

    def __init__(self, subject: Subject, form: Form, made: Converted) -> None:
        self._subject, self._form, self._layers = subject, form, made.layers
        self._order: list[str] | None = None

    def rungs(self) -> Iterator[list[str]]:
        """Sets of layers to keep wider, each larger than the one before; measured once."""
        if self._order is None:
            self._order = self._ranked()
        ranked = self._order
        count = max(1, round(FIRST * len(ranked)))
        while count <= max(1, LAST * len(ranked)) and ranked:
            yield ranked[:count]
            count += max(1, count // 2)

    def _ranked(self) -> list[str]:
        """Layers by the noise that they add alone, most first; groups are ranked as one."""
        width = -(-len(self._layers) // GROUPS) or 1
        groups = [self._layers[at : at + width] for at in range(0, len(self._layers), width)]
        # Layers that add the same are taken from the front of the graph: their errors travel on.
        noise = [self._alone(group) for group in groups]
        order = sorted(range(len(groups)), key=lambda index: noise[index])
        return [name for index in order for name in groups[index]]

    def _alone(self, group: tuple[str, ...]) -> float:
        """SNR in dB of the worst output with only these layers narrow."""
        wider = frozenset(self._layers).difference(group)
        try:
            made = self._form.convert(self._subject, wider)
            if made is None:
                return SNR_CAP
            session = self._form.session(made.ir)
            chosen = spread(self._subject.references, REFERENCES)
            results = list(session.each(reference.inputs for reference in chosen))
        except UnsupportedError:
            return -SNR_CAP
        return snr([reference.outputs for reference in chosen], results)
