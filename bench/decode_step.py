"""What a token costs with a cache of keys and values, beside reading the whole text again.

    .venv/bin/python -m bench.decode_step [--steps 12]

SmolLM2-135M-Instruct in fp32 on one thread of the CPU, behind texts of several lengths: its decoder
as the builder imports it, with a cache, and the graph without one, which scores all tokens each
time. Steps of both are interleaved; figures are the least of all, and the last column is how many
times the one is the other.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from bench.precision import smollm
from bench.precision.case import exported, runner
from builder import sources
from builder.fetch import fetch
from builder.generation import Generator
from builder.recipe import ModelRecipe

LENGTHS = (16, 64, 256, 1024)
"""Tokens before the one that is timed."""


def main() -> None:
    """Import, time, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=12)
    steps = parser.parse_args().steps
    weights = fetch(smollm.WEIGHTS)
    with tempfile.TemporaryDirectory() as work:
        recipe = ModelRecipe(source=str(weights))
        parts = sources.load_parts(recipe, base=Path(), files={}, work=Path(work))
    generator = Generator(parts)
    whole = runner(
        exported("smollm2-135m-fp32.onnx", "bench.precision.uncached:smollm", {"weights": weights})
    )
    rng = np.random.default_rng(0)
    table = Table("tokens before", "with a cache, ms", "without, ms", "times")
    for length in LENGTHS:
        text = rng.integers(3, 49152, length).tolist()
        state = generator.start({})
        generator.step(text, state)
        timed: list[tuple[float, float]] = []
        for _ in range(steps):
            fresh = dict(state)
            begun = time.perf_counter()
            generator.step([5], fresh)
            between = time.perf_counter()
            whole({"input_ids": np.array([[*text, 5]], np.int64)})
            timed.append((between - begun, time.perf_counter() - between))
        cached, uncached = (1e3 * min(column) for column in zip(*timed, strict=True))
        table.add_row(f"{length}", f"{cached:.1f}", f"{uncached:.1f}", f"{uncached / cached:.1f}")
    Console().print(table)


if __name__ == "__main__":
    main()
