/** Files that the manifest names, fetched and held against their SHA-256 before use. */
import { digest } from "../runtime/digest.ts";
import type { File as StoredFile } from "../runtime/index.ts";
import { InputFault } from "../tasks/task.ts";
import { TEXT } from "./text.ts";

/**
 * Fetch a file of this site.
 *
 * @throws InputFault if it doesn't come, or isn't the file that was built.
 */
export async function fetchStored(
  root: URL,
  file: StoredFile,
  signal: AbortSignal,
): Promise<Uint8Array<ArrayBuffer>> {
  const url = new URL(file.path, root);
  const fail = (why: string) => new InputFault(TEXT.error.fetch(file.path, why));
  let bytes: Uint8Array<ArrayBuffer>;
  try {
    const response = await fetch(url, { signal });
    if (!response.ok) {
      throw fail(TEXT.error.status(response.status));
    }
    bytes = new Uint8Array(await response.arrayBuffer());
  } catch (error) {
    if (signal.aborted || error instanceof InputFault) {
      throw error;
    }
    throw fail(error instanceof Error ? error.message : String(error));
  }
  if ((await digest(bytes)) !== file.sha256) {
    throw fail(TEXT.error.changed);
  }
  return bytes;
}
