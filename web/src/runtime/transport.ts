/** Bring one file over the network: resumed, retried, verified, and named when it comes wrong. */
import { digest } from "./digest.ts";
import { FetchError, IntegrityError, type OnnxsiteError } from "./errors.ts";
import type { File } from "./manifest.gen.ts";
import type { NetworkOptions } from "./types.ts";

/** Where a file comes from, and where it goes. */
export interface Transfer {
  readonly file: File;
  readonly url: string;
  /** Address of the same file compressed by gzip, for hosts that compress nothing. */
  readonly zipped: string | undefined;
  /** As long as the file; what comes is written straight to its place. */
  readonly target: Uint8Array<ArrayBuffer>;
  /** Bytes of `target` that are there already. */
  readonly start: number;
  readonly network: Required<NetworkOptions>;
  /** Bytes came; or, without a chunk, the file begins again at `offset`. */
  readonly onBytes: (offset: number, chunk?: Uint8Array<ArrayBuffer>) => void;
  /** The file is asked for again; why, in a sentence. */
  readonly onRetry: (reason: string) => void;
}

export const NETWORK: Required<NetworkOptions> = { retries: 4, pause: 400, stall: 20_000 };

/** Milliseconds: no pause is longer, whatever a host asks for. */
const LONGEST_PAUSE = 30_000;

/** A host that sends a few bytes a time isn't asked for ever. */
const MOST_TRIES = 50;

/** Statuses after which another try may succeed; after others, only a cache may have been wrong. */
export const PASSING = new Set([408, 425, 429, 500, 502, 503, 504, 511]);

const RANGE_NOT_SATISFIABLE = 416;

const LACKING = "Upload the whole site again: the host doesn't have this file.";

/** Characters of a wrong answer that its error shows. */
const SHOWN = 40;

class Failure extends Error {
  readonly error: OnnxsiteError;
  /** Milliseconds that the host asked for. */
  readonly wait: number;
  /** How many more tries it is worth; undefined for as many as the options say. */
  readonly tries: number | undefined;
  /** Whether what came so far may be the beginning of the file. */
  readonly sound: boolean;

  constructor(
    error: OnnxsiteError,
    { wait = 0, tries = undefined as number | undefined, sound = true } = {},
  ) {
    super(error.message);
    this.error = error;
    this.wait = wait;
    this.tries = tries;
    this.sound = sound;
  }
}

/**
 * Fill `target` and hold it against the file's SHA-256.
 *
 * @throws FetchError if the file doesn't come, IntegrityError if something else comes.
 */
export async function receive(transfer: Transfer): Promise<void> {
  const attempt = new Attempt(transfer);
  const { network, onRetry } = transfer;
  let furthest = transfer.start;
  let failures = 0;
  for (let tries = 1; ; tries++) {
    try {
      await attempt.go(tries > 1);
      return;
    } catch (thrown) {
      if (!(thrown instanceof Failure)) throw thrown;
      const forward = thrown.sound && attempt.offset > furthest;
      furthest = Math.max(furthest, attempt.offset);
      failures = forward ? 1 : failures + 1;
      if (!thrown.sound) attempt.restart();
      const allowed = Math.min(thrown.tries ?? network.retries, network.retries);
      if (failures > allowed || tries >= MOST_TRIES) throw thrown.error;
      onRetry(thrown.message);
      await backoff(failures, network, thrown.wait);
    }
  }
}

class Attempt {
  readonly #transfer: Transfer;
  offset: number;
  /** Whether the host gives parts of files. */
  #parts = true;
  #zipped: boolean;

  constructor(transfer: Transfer) {
    this.#transfer = transfer;
    this.offset = transfer.start;
    this.#zipped = transfer.zipped !== undefined;
  }

  restart(): void {
    this.offset = 0;
    this.#transfer.onBytes(0);
  }

  /** Ask once for what is missing. */
  async go(again: boolean): Promise<void> {
    const { file, target, network } = this.#transfer;
    if (this.offset > 0 && !this.#parts) this.restart();
    if (this.offset < file.size) {
      const stop = new AbortController();
      let timer: ReturnType<typeof setTimeout> | undefined;
      const alive = () => {
        clearTimeout(timer);
        timer = setTimeout(() => stop.abort(), network.stall);
      };
      alive();
      try {
        await this.#read(await this.#ask(stop.signal, again), alive);
      } catch (error) {
        if (error instanceof Failure) throw error;
        const why = stop.signal.aborted
          ? `nothing came for ${network.stall / 1000} s`
          : String(error);
        throw new Failure(new FetchError(`${this.#url} didn't come: ${why}.`, this.#url));
      } finally {
        clearTimeout(timer);
        stop.abort();
      }
    }
    const actual = await digest(target);
    if (actual !== file.sha256) {
      const why = `isn't the file that was built: its SHA-256 is ${actual}${start(target)}`;
      throw new Failure(this.#wrong(why), { sound: false });
    }
  }

  get #url(): string {
    const { url, zipped } = this.#transfer;
    return this.#zipped && this.offset === 0 && zipped ? zipped : url;
  }

  async #ask(
    signal: AbortSignal,
    again: boolean,
  ): Promise<ReadableStream<Uint8Array<ArrayBuffer>>> {
    const url = this.#url;
    const compressed = url === this.#transfer.zipped;
    // The beginning is there in its plain form, whichever form it came in.
    this.#zipped = false;
    const from = this.offset;
    const response = await fetch(url, {
      signal,
      // A second try must not be answered with the bytes that were wrong.
      cache: again ? "reload" : "default",
      headers: from > 0 ? { Range: `bytes=${from}-` } : {},
    });
    const { status, headers, body } = response;
    if (from > 0 && !this.#continues(response)) this.restart();
    if (status === RANGE_NOT_SATISFIABLE && from > 0) {
      this.#parts = false;
      throw new Failure(this.#wrong(`ends before byte ${from} of ${this.#transfer.file.size}`));
    }
    if (!response.ok) {
      const error = new FetchError(
        `${url} was answered with status ${status}.`,
        url,
        PASSING.has(status) ? undefined : LACKING,
      );
      const tries = PASSING.has(status) ? undefined : 1;
      throw new Failure(error, { wait: retryAfter(headers), tries });
    }
    if ((headers.get("content-type") ?? "").startsWith("text/html")) {
      const error = new FetchError(
        `${url} was answered with a web page instead of the file.`,
        url,
        LACKING,
      );
      throw new Failure(error, { tries: 1 });
    }
    if (!body) throw new Failure(new FetchError(`${url} was answered without content.`, url));
    const coded = headers.get("content-encoding");
    if (compressed && !coded) {
      return body.pipeThrough(new DecompressionStream("gzip"));
    }
    return body;
  }

  /** Whether a response goes on where the last one ended. */
  #continues({ status, headers }: Response): boolean {
    if (status !== 206) return false;
    const { size } = this.#transfer.file;
    const expected = `bytes ${this.offset}-${size - 1}/${size}`;
    // Compressed, the part would be one of other bytes.
    this.#parts = headers.get("content-range") === expected && !headers.get("content-encoding");
    if (!this.#parts) {
      throw new Failure(this.#wrong(`gave another part than ${expected}`));
    }
    return true;
  }

  async #read(body: ReadableStream<Uint8Array<ArrayBuffer>>, alive: () => void): Promise<void> {
    const { file, target, onBytes } = this.#transfer;
    const reader = body.getReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      alive();
      if (this.offset + value.length > file.size) {
        throw new Failure(this.#wrong(`is longer than the ${file.size} bytes built`), {
          sound: false,
        });
      }
      target.set(value, this.offset);
      onBytes(this.offset, value);
      this.offset += value.length;
    }
    if (this.offset < file.size) {
      throw new Failure(
        this.#wrong(`ended after ${this.offset} of ${file.size} bytes${start(target)}`),
      );
    }
  }

  #wrong(what: string): IntegrityError {
    return new IntegrityError(`${this.#transfer.url} ${what}.`, this.#transfer.url);
  }
}

/** The first characters of an answer that is text, as an error page of a host or a proxy is. */
function start(bytes: Uint8Array<ArrayBuffer>): string {
  const text = new TextDecoder().decode(bytes.subarray(0, SHOWN)).trim();
  return /^(<|\{|[A-Za-z ]{8})/.test(text) ? `; it starts: ${text}` : "";
}

/** Milliseconds that Retry-After asks for: seconds, or a date. */
export function retryAfter(headers: Headers): number {
  const value = headers.get("retry-after");
  if (!value) return 0;
  const seconds = Number(value);
  const wait = Number.isNaN(seconds) ? Date.parse(value) - Date.now() : seconds * 1000;
  return Number.isFinite(wait) ? Math.max(0, wait) : 0;
}

/**
 * Wait before another try; without a connection, until there is one again.
 *
 * @param failures Tries that failed in a row.
 * @param wait Milliseconds that the host asked for.
 */
export async function backoff(
  failures: number,
  { pause }: Required<NetworkOptions>,
  wait: number,
): Promise<void> {
  // Spread, so that pages that failed together don't come back together.
  const own = pause * 2 ** (failures - 1) * (0.5 + Math.random() / 2);
  const longest = Math.min(Math.max(own, wait), LONGEST_PAUSE);
  await new Promise((resolve) => setTimeout(resolve, longest));
  if (navigator.onLine !== false) return;
  await new Promise<void>((resolve) => {
    const timer = setTimeout(done, LONGEST_PAUSE);
    function done() {
      clearTimeout(timer);
      removeEventListener("online", done);
      resolve();
    }
    addEventListener("online", done);
  });
}
