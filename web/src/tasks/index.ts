/** The table of tasks: a manifest's `task` to what its page does. */
import { startClassification } from "./classification.ts";
import { startFaces } from "./faces.ts";
import { startFileType } from "./file-type.ts";
import type { Task } from "./task.ts";
import { startTensors } from "./tensors.ts";

const TASKS: Readonly<Record<string, Task>> = {
  "image-classification": startClassification,
  "face-detection": startFaces,
  "file-type": startFileType,
  tensors: startTensors,
};

/** A task that this version doesn't know still gets its tensors. */
export function taskOf(name: string): Task {
  return TASKS[name] ?? startTensors;
}
