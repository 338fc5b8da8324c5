/** Whether a card is what a visitor looks for. Pure. */

/** True if every word of `query` occurs in `text`, in lower case. */
export function matches(text: string, query: string): boolean {
  const words = query.toLowerCase().split(/\s+/);
  return words.every((word) => text.includes(word));
}
