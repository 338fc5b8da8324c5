/** Told to the document when stored files were deleted. */
export const CLEARED = "onnxsite:cleared";
