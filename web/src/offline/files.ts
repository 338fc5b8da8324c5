/** Files that are named by the SHA-256 of their content, kept only if they hold that content. */

const NAMED = /\/([0-9a-f]{64})\.[^/]+$/;

/**
 * Put an answer into `cache` if it is what its address says: a host may answer anything with a
 * page. Gives whether it was put.
 */
export async function keep(cache: Cache, url: string, response: Response): Promise<boolean> {
  const named = NAMED.exec(new URL(url).pathname)?.[1];
  const content = await response.arrayBuffer();
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", content));
  const actual = Array.from(digest, (byte) => byte.toString(16).padStart(2, "0")).join("");
  if (actual !== named) return false;
  await cache.put(url, new Response(content, { headers: plainHeaders(response) }));
  return true;
}

/** The headers of an answer but for those that tell how its bytes came. */
export function plainHeaders(response: Response): Headers {
  const headers = new Headers(response.headers);
  for (const name of ["content-encoding", "content-length", "transfer-encoding", "vary"]) {
    headers.delete(name);
  }
  return headers;
}
