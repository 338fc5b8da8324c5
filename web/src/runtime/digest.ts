/** SHA-256, which names every file of a site. */
import { sha256 as portableSha256 } from "@noble/hashes/sha2.js";

/** SHA-256 in hexadecimal; insecure origins have no SubtleCrypto. */
export async function digest(bytes: Uint8Array<ArrayBuffer>): Promise<string> {
  const hash = globalThis.crypto.subtle
    ? new Uint8Array(await crypto.subtle.digest("SHA-256", bytes))
    : portableSha256(bytes);
  return Array.from(hash, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
