/** What the storage dialog tells the page: stored files were deleted. */
const CLEARED = "onnxsite:cleared";

/** Tell that a model was deleted, by its manifest's address; or, without one, everything. */
export function tellCleared(url?: string): void {
  document.dispatchEvent(new CustomEvent(CLEARED, { detail: url }));
}

/** Call `listener` whenever that model, or everything, was deleted. */
export function onCleared(url: string, listener: () => void): void {
  document.addEventListener(CLEARED, (event) => {
    const { detail } = event as CustomEvent<string | undefined>;
    if ((detail ?? url) === url) listener();
  });
}
