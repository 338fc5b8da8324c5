"""The tasks: what a model takes and gives in terms that a page can show.

A task is one row of `TASKS`. `build` makes the stages around a model; what it returns also knows
how to read a sample file, and what to measure and to check the model on.
"""

from __future__ import annotations

from builder.tasks import face_detection, file_type, image_classification, tensors
from builder.tasks.run import Runner, interface, run_stages
from builder.tasks.task import Stages, Task

TASKS: dict[str, Task] = {
    task.name: task
    for task in (
        image_classification.TASK,
        face_detection.TASK,
        file_type.TASK,
        tensors.TASK,
    )
}
"""By the name that recipes and manifests use."""


__all__ = ["TASKS", "Runner", "Stages", "Task", "interface", "run_stages"]
