/** Bring a model's manifest: the one file without a digest to hold it against, so its form is. */
import { ManifestError } from "./errors.ts";
import type { Manifest } from "./manifest.gen.ts";
import { backoff, PASSING, retryAfter } from "./transport.ts";
import type { NetworkOptions } from "./types.ts";

const FORMAT = 1;

/** Characters of a wrong answer that its error shows. */
const SHOWN = 40;

export interface Answer {
  readonly manifest: Manifest;
  /** Whether it came as it is: a host that compresses anything compresses JSON. */
  readonly plainHost: boolean;
}

/** Worth as many tries as the options say; others are worth one more. */
class Passing extends ManifestError {
  readonly wait: number;

  constructor(message: string, url: string, wait = 0) {
    super(message, url);
    this.wait = wait;
  }
}

/**
 * Fetch a manifest, again if that may help.
 *
 * @throws ManifestError if it doesn't come or isn't one. An aborted `signal` throws its reason.
 */
export async function fetchManifest(
  url: string,
  network: Required<NetworkOptions>,
  signal: AbortSignal | undefined,
): Promise<Answer> {
  for (let failures = 1; ; failures++) {
    try {
      return await ask(url, network.stall, failures > 1, signal);
    } catch (error) {
      signal?.throwIfAborted();
      if (!(error instanceof ManifestError)) throw error;
      const wait = error instanceof Passing ? error.wait : 0;
      if (failures > Math.min(error instanceof Passing ? network.retries : 1, network.retries)) {
        throw error;
      }
      await backoff(failures, network, wait);
    }
  }
}

async function ask(
  url: string,
  stall: number,
  again: boolean,
  signal: AbortSignal | undefined,
): Promise<Answer> {
  const stop = new AbortController();
  const abort = () => stop.abort();
  const timer = setTimeout(abort, stall);
  signal?.addEventListener("abort", abort);
  let response: Response;
  let text: string;
  try {
    response = await fetch(url, { signal: stop.signal, cache: again ? "reload" : "default" });
    text = await response.text();
  } catch (error) {
    const why = stop.signal.aborted ? `nothing came for ${stall / 1000} s` : String(error);
    throw new Passing(`${url} can't be reached (${why}).`, url);
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener("abort", abort);
  }
  const { ok, status, headers } = response;
  if (!ok) {
    const message = `${url} was answered with status ${status}.`;
    if (PASSING.has(status)) throw new Passing(message, url, retryAfter(headers));
    throw new ManifestError(message, url);
  }
  return { manifest: parse(text, url), plainHost: !headers.has("content-encoding") };
}

function parse(text: string, url: string): Manifest {
  let content: Manifest;
  try {
    content = JSON.parse(text);
  } catch {
    throw new ManifestError(`${url} isn't a manifest; it starts: ${text.slice(0, SHOWN)}`, url);
  }
  if (content?.format !== FORMAT) {
    throw new ManifestError(`${url} isn't a manifest of format ${FORMAT}.`, url);
  }
  return content;
}
