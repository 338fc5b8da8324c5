/** The inputs and outputs of a known task, as the manifest names them. */
import type { Manifest, RunResult, TensorLike } from "../runtime/index.ts";

/** `value` for the one input that a task can't do without: the picture, the bytes. */
export function mainInput({ interface: { inputs } }: Manifest, value: TensorLike) {
  const needed = inputs.find((spec) => spec.default === undefined);
  if (needed === undefined) {
    throw new Error("The model has no input to be given.");
  }
  return { [needed.name]: value };
}

/**
 * Whether the interface's `actual` is what the task calls `name`: the builder puts a prefix before
 * a name that the model's author already used.
 */
export function isNamed(actual: string, name: string): boolean {
  return actual === name || actual.endsWith(`_${name}`);
}

/** The values of an output as plain numbers. */
export function numbers(manifest: Manifest, result: RunResult, name: string): number[] {
  const found = manifest.interface.outputs.find((spec) => isNamed(spec.name, name));
  const tensor = found && result.outputs[found.name];
  if (tensor === undefined) {
    throw new Error(`The model gave no output ${name}.`);
  }
  return Array.from(tensor.data, Number);
}
