"""Every float case of onnx's operator suite through our conversions and through stock tools.

    PYTHONPATH=. .venv/bin/python -m bench.robustness [--write docs/robustness.md]

Needs `pip install --no-deps onnxconverter-common==1.16.0`; a stock tool that isn't installed is
left out. Everything runs in a worker process: a tool that kills it, or hangs, is charged with a
crash, and a new worker goes on with the rest.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import rich_click as click
from rich.console import Console
from rich.markdown import Markdown
from rich.progress import track

from bench.conversions import OUTCOMES, TOLERANCES, Result, Tool, attempt, differs, tools
from bench.conversions import lower_limits as lower_our_limits
from builder.errors import OnnxsiteError
from tests import node_cases
from tests.node_cases import Case

SECONDS = 60
"""What takes longer counts as a hang."""

SOURCE_SNR = 60.0
"""dB. Where the case itself doesn't give its right outputs on the CPU, no tool can be judged."""

SETS = {
    False: "Everything is an input, as onnx has the cases",
    True: "All inputs but the first are weights, as an exporter writes them",
}
"""The two forms of a case."""

PACKAGES = ("onnx", "onnxruntime", "onnx_ir", "onnxconverter_common", "numpy")
"""Whose versions count."""

GOOD = ("right", "unchanged")
"""Outcomes without a cause to look for."""

EXAMPLES = 3
"""Cases named for each cause."""

Table: TypeAlias = dict[str, list[Result]]
"""Results of all tools, in order, by the name of the case."""


def source(name: str, weights: bool) -> Case | None:
    """A case, if it gives its own right outputs."""
    case = node_cases.case(name)
    if case is None or (weights and len(case.inputs) < 2):
        return None
    case = case.with_weights() if weights else case
    try:
        outputs = case.reference().outputs
    except OnnxsiteError:
        return None
    return None if differs(case, outputs, SOURCE_SNR) else case


def work(pipe: Connection) -> None:
    """Answer (name, with weights, indices of tools): first about the source, then for each tool."""
    for stream in (1, 2):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
    logging.disable()
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    lower_our_limits()
    known = tools()
    while True:
        name, weights, indices = pipe.recv()
        case = source(name, weights)
        pipe.send(case is not None)
        if case is not None:
            for index in indices:
                pipe.send(attempt(known[index], case))


class Worker:
    """A process that may die."""

    def __init__(self) -> None:
        self._start()

    def _start(self) -> None:
        # Forked, since onnx collects its cases only once, and for 15 s.
        context = multiprocessing.get_context("fork")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=work, args=(theirs,), daemon=True)
        self._process.start()
        theirs.close()

    def run(self, name: str, weights: bool, count: int) -> list[Result]:
        """Results of all tools, in order; none if the source itself doesn't do."""
        results: list[Result] = []
        while len(results) < count:
            self._pipe.send((name, weights, range(len(results), count)))
            if not self._receive():
                return []
            alive = True
            while alive and len(results) < count:
                answer = self._receive()
                alive = answer is not None
                results.append(answer or ("crash", "the process dies or hangs"))
        return results

    def _receive(self) -> Any:
        """The next answer; None, and a new process, if there is none."""
        try:
            if self._pipe.poll(SECONDS):
                return self._pipe.recv()
        except EOFError:
            pass
        self._process.kill()
        self._process.join()
        self._start()
        return None


def report(known: Sequence[Tool], tables: dict[bool, Table]) -> Iterator[str]:
    """The page, in Markdown."""
    yield "# Robustness of conversions\n"
    yield (
        "Made by `python -m bench.robustness`: the operator cases of onnx's own backend suite that "
        "have floats in them, each a model of one to a few nodes with known right outputs, through "
        "our normal form and each of our conversions, and through stock tools as their "
        "documentation calls them. Only cases that onnxruntime's CPU provider runs right in fp32 "
        f"count. Versions: {', '.join(f'{name} {version(name)}' for name in PACKAGES)}.\n"
    )
    yield "".join(f"- **{name}**: {text}\n" for name, text in OUTCOMES.items())
    limits = ", ".join(f"{db:.0f} dB for {name}" for name, db in TOLERANCES.items())
    yield (
        f"The tolerance is the same for all tools: a signal-to-noise ratio of {limits} on every "
        "output of floats; other outputs must be equal. Our figures are those of the bare "
        "conversions with their size limits lowered to two elements; a build measures its result "
        "and drops what is wrong. The CPU provider computes half graphs in fp32, so overflow "
        "in half doesn't show here.\n"
    )
    for weights, table in tables.items():
        yield f"## {SETS[weights]}\n\n{len(table)} cases.\n"
        yield "| tool | to | " + " | ".join(OUTCOMES) + " |"
        yield "|---|---|" + "--:|" * len(OUTCOMES)
        for index, tool in enumerate(known):
            counts = Counter(results[index][0] for results in table.values())
            yield (
                f"| {tool.name} | {tool.format} | "
                + " | ".join(f"{counts[outcome]}" for outcome in OUTCOMES)
                + " |"
            )
        yield ""
    yield "## What isn't right\n"
    yield "| tool | to | outcome | cases | for example |\n|---|---|---|--:|---|"
    for index, tool in enumerate(known):
        found: dict[str, list[str]] = defaultdict(list)
        for table in tables.values():
            for name, results in table.items():
                outcome, _ = results[index]
                if outcome not in GOOD:
                    found[outcome].append(name)
        for outcome in OUTCOMES:
            if names := found.get(outcome):
                few = list(dict.fromkeys(names))[:EXAMPLES]
                shown = ", ".join(f"`{name.removeprefix('test_')}`" for name in few)
                yield f"| {tool.name} | {tool.format} | {outcome} | {len(names)} | {shown} |"


@click.command()
@click.option("--write", type=click.Path(path_type=Path), help="Write the page to this file.")
@click.option("--step", default=1, show_default=True, help="Take every n-th case only.")
@click.option("--details", is_flag=True, help="Name every case that isn't right, with its cause.")
def main(write: Path | None, step: int, details: bool) -> None:
    """Run all cases, and print or write what came of them."""
    console = Console()
    known, names, worker = tools(), node_cases.names()[::step], Worker()
    tables: dict[bool, Table] = {}
    for weights, title in SETS.items():
        tables[weights] = {
            name: results
            for name in track(names, title, console=console)
            if (results := worker.run(name, weights, len(known)))
        }
    page = "\n".join(report(known, tables)).rstrip() + "\n"
    if write:
        write.write_text(page)
    console.print(Markdown(page))
    for table in tables.values() if details else ():
        for name, results in table.items():
            for tool, (outcome, cause) in zip(known, results, strict=True):
                if outcome not in GOOD:
                    print(tool.name, tool.format, outcome, name, cause, sep="\t")


if __name__ == "__main__":
    main()
