/**
 * Run a model of an onnxsite site in the browser.
 *
 *     const model = await load("models/efficientnet-lite0/");
 *     const { outputs } = await model.run({ image: { data: rgba, dims: [height, width, 4] } });
 */
import { ManifestError } from "./errors.ts";
import type { Manifest } from "./manifest.gen.ts";
import { abortable, OnnxModel } from "./model.ts";
import type { AnyInputs, AnyOutputs, Each, LoadOptions, Tensor, TensorLike } from "./types.ts";

export { snr } from "./compare.ts";
export * from "./errors.ts";
export { fromHalf, toHalf } from "./half.ts";
export type * from "./manifest.gen.ts";
export type * from "./types.ts";
export { OnnxModel };

const FORMAT = 1;

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
  const manifest = await fetchManifest(address, signal);
  const model = new OnnxModel<Inputs, Outputs>(manifest, address.href, options);
  try {
    await abortable(model.open(), signal);
  } catch (error) {
    await model.dispose();
    throw error;
  }
  return model;
}

async function fetchManifest(url: URL, signal: AbortSignal | undefined): Promise<Manifest> {
  let response: Response;
  try {
    response = await fetch(url, signal ? { signal } : {});
  } catch (error) {
    signal?.throwIfAborted();
    throw new ManifestError(`${url.href} can't be reached (${String(error)}).`, url.href);
  }
  if (!response.ok) {
    throw new ManifestError(`${url.href} was answered with status ${response.status}.`, url.href);
  }
  const text = await response.text();
  let content: Manifest;
  try {
    content = JSON.parse(text);
  } catch {
    throw new ManifestError(
      `${url.href} isn't a manifest; it starts: ${text.slice(0, 40)}`,
      url.href,
    );
  }
  if (content.format !== FORMAT) {
    throw new ManifestError(`${url.href} isn't a manifest of format ${FORMAT}.`, url.href);
  }
  return content;
}
