/**
 * What can go wrong, as one tree. Each error says what to do (`advice`), has a `code` that survives
 * minification and the way out of a worker, and a section in docs/errors.md (`help`).
 *
 *     OnnxsiteError
 *     ├── ManifestError     the manifest isn't there, or isn't one
 *     ├── FetchError        a file didn't come, or something else came in its place (`url`)
 *     ├── IntegrityError    a file came, but not the bytes that were built (`url`)
 *     ├── InputError        an input is missing, or of the wrong type or shape
 *     ├── UnsuitableError   no variant can run here with the options given
 *     ├── StartError        the web runtime's threads didn't start
 *     ├── SessionError      the web runtime failed to create a session or to run it
 *     ├── MemoryError       there isn't enough memory
 *     ├── DeviceLostError   the GPU went away
 *     └── DisposedError     the model was disposed
 */
export class OnnxsiteError extends Error {
  readonly code: string;
  readonly advice: string;
  readonly url: string | undefined;

  constructor(code: string, message: string, advice = "", url?: string) {
    super(message);
    this.name = code;
    this.code = code;
    this.advice = advice;
    this.url = url;
  }

  /** The section of this project's documentation on this kind of error. */
  get help(): string {
    return `docs/errors.md#${this.code.toLowerCase()}`;
  }
}

export class ManifestError extends OnnxsiteError {
  constructor(message: string, url: string) {
    super("ManifestError", message, "Check the address of the model.", url);
  }
}

export class FetchError extends OnnxsiteError {
  constructor(message: string, url: string, advice = "Check the connection and try again.") {
    super("FetchError", message, advice, url);
  }
}

export class IntegrityError extends OnnxsiteError {
  constructor(message: string, url: string) {
    super(
      "IntegrityError",
      message,
      "Try again; if it stays, the host serves a changed file: upload the site again.",
      url,
    );
  }
}

export class InputError extends OnnxsiteError {
  constructor(message: string, advice: string) {
    super("InputError", message, advice);
  }
}

export class UnsuitableError extends OnnxsiteError {
  constructor(message: string) {
    super("UnsuitableError", message, "Leave device and dtype on auto, or try another browser.");
  }
}

export class StartError extends OnnxsiteError {
  constructor(message: string) {
    super("StartError", message, "Load the page again.");
  }
}

export class SessionError extends OnnxsiteError {
  constructor(message: string) {
    super("SessionError", message, "Try another variant, or device=wasm.");
  }
}

export class MemoryError extends OnnxsiteError {
  constructor(message: string) {
    super("MemoryError", message, "Close other tabs, or take a smaller variant.");
  }
}

export class DeviceLostError extends OnnxsiteError {
  constructor(message: string) {
    super("DeviceLostError", message, "It will run on the CPU instead.");
  }
}

export class DisposedError extends OnnxsiteError {
  constructor() {
    super("DisposedError", "The model was disposed.", "Load it again.");
  }
}

/** An error as it crosses from the worker to the page. */
export interface ErrorData {
  readonly code: string;
  readonly message: string;
  readonly advice: string;
  readonly url: string | undefined;
}

export function toData(error: unknown): ErrorData {
  const { code, message, advice, url } = classify(error);
  return { code, message, advice, url };
}

export function fromData(data: ErrorData): OnnxsiteError {
  return new OnnxsiteError(data.code, data.message, data.advice, data.url);
}

/** An overflow is of a size: more than the 4 GiB that addresses of 32 bits reach. */
const OUT_OF_MEMORY =
  /out of memory|failed to allocate|bad_alloc|allocation failed|memory access|SafeIntOnOverflow/i;
const LOST = /device (is |was )?(lost|destroyed)|devicelost/i;

/**
 * Make a typed error of whatever was thrown. onnxruntime-web throws C++ exceptions and failed
 * allocations as bare numbers (addresses inside the wasm heap), which tell a visitor nothing.
 */
export function classify(thrown: unknown): OnnxsiteError {
  if (thrown instanceof OnnxsiteError) return thrown;
  if (typeof thrown === "number") {
    return new MemoryError(
      `The runtime stopped with an internal error (${thrown}), most likely for lack of memory.`,
    );
  }
  const message = thrown instanceof Error ? thrown.message : String(thrown);
  if (thrown instanceof RangeError || OUT_OF_MEMORY.test(message)) return new MemoryError(message);
  if (LOST.test(message)) return new DeviceLostError(message);
  return new SessionError(message);
}
