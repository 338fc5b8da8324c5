/**
 * Run a model of an onnxsite site in the browser.
 *
 *     const model = await load("models/efficientnet-lite0/");
 *     const { outputs } = await model.run({ image: { data: rgba, dims: [height, width, 4] } });
 */
import { fetchManifest } from "./manifest.ts";
import { abortable, OnnxModel } from "./model.ts";
import { storage } from "./storage.ts";
import { NETWORK } from "./transport.ts";
import type { AnyInputs, AnyOutputs, Each, LoadOptions, Tensor, TensorLike } from "./types.ts";

export { snr } from "./compare.ts";
export * from "./errors.ts";
export { fromHalf, toHalf } from "./half.ts";
export type * from "./manifest.gen.ts";
export type { Kept } from "./protocol.ts";
export type { KeptModel } from "./records.ts";
export type * from "./types.ts";
export { OnnxModel, storage };

/**
 * Load a model: choose device and variant, download and verify, open, and check a stored reference.
 *
 * @typeParam Inputs As the `model.d.ts` beside the model's manifest has them; any names if left out.
 * @typeParam Outputs Likewise.
 * @param url The model's folder, or its manifest.json; relative to the page.
 * @throws OnnxsiteError: see errors.ts. An aborted `signal` throws its reason.
 */
export async function load<
  Inputs extends Each<Inputs, TensorLike> = AnyInputs,
  Outputs extends Each<Outputs, Tensor> = AnyOutputs,
>(url: string | URL, options: LoadOptions = {}): Promise<OnnxModel<Inputs, Outputs>> {
  const { signal } = options;
  signal?.throwIfAborted();
  const address = new URL(url, globalThis.document?.baseURI ?? globalThis.location?.href);
  if (!address.pathname.endsWith(".json")) {
    address.pathname = `${address.pathname.replace(/\/$/, "")}/manifest.json`;
  }
  const network = { ...NETWORK, ...options.network };
  const { manifest, plainHost } = await fetchManifest(address.href, network, signal);
  const model = new OnnxModel<Inputs, Outputs>(manifest, address.href, options, plainHost);
  try {
    await abortable(model.open(), signal);
  } catch (error) {
    await model.dispose();
    throw error;
  }
  return model;
}
