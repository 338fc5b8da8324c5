/** The start of the runtime with threads, which may never end: said to the page, which can wait. */
import type * as ort from "onnxruntime-web";

/** The smallest graph, y = x for f32 of any shape: IR version 7, opset 13. */
const IDENTITY = Uint8Array.of(
  ...[8, 7, 58, 42, 10, 16, 10, 1, 120, 18, 1, 121, 34, 8, 73, 100, 101, 110, 116, 105, 116, 121],
  ...[18, 0, 90, 9, 10, 1, 120, 18, 4, 10, 2, 8, 1, 98, 9, 10, 1, 121, 18, 4, 10, 2, 8, 1],
  ...[66, 4, 10, 0, 16, 13],
);

/**
 * Start the runtime and its threads, which is what its first session does, whatever its graph.
 *
 * Firefox under WebDriver forgets to start a worker's worker, about once in 40 loads. Where the
 * runtime hasn't noticed, it then waits for the thread without returning, so that no timer of this
 * worker comes either: only the page, told by `say`, can end that.
 */
export async function startThreads(
  runtime: typeof ort,
  say: (state: "starting" | "started") => void,
): Promise<void> {
  say("starting");
  const session = await runtime.InferenceSession.create(IDENTITY, { executionProviders: ["wasm"] });
  say("started");
  await session.release();
}
