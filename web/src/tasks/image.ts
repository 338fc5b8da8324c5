/** From a picture in any form the browser knows to raw RGBA pixels. */
import { context2d } from "../pages/dom.ts";
import { TEXT } from "../pages/text.ts";
import type { TensorLike } from "../runtime/index.ts";
import { InputFault } from "./task.ts";

/** Longest side that is given to a model: 4096² RGBA is 64 MiB, which phones can still hold. */
export const LONGEST_SIDE = 4096;

/** A decoded picture: its pixels on a canvas, ready to be read and drawn. */
export interface Picture {
  readonly name: string;
  readonly canvas: HTMLCanvasElement;
  /** Set if it was made smaller: the sentence that says so. */
  readonly reduced?: string;
}

/** The size of a picture with its long side capped; both sides stay at least one pixel. */
export function capped(width: number, height: number): { width: number; height: number } {
  const scale = Math.min(1, LONGEST_SIDE / Math.max(width, height));
  return {
    width: Math.max(1, Math.round(width * scale)),
    height: Math.max(1, Math.round(height * scale)),
  };
}

/**
 * Decode `file` upright, with its colours and alpha as stored.
 *
 * @throws InputFault if it isn't a picture, or is damaged.
 */
export async function decode(file: Blob, name: string): Promise<Picture> {
  if (file.type !== "" && !file.type.startsWith("image/")) {
    throw new InputFault(TEXT.error.notAnImage(name));
  }
  let bitmap: ImageBitmap;
  try {
    bitmap = await createImageBitmap(file, {
      imageOrientation: "from-image",
      premultiplyAlpha: "none",
      colorSpaceConversion: "none",
    });
  } catch {
    // The browser's own message ("The source image could not be decoded") names no cause.
    throw new InputFault(TEXT.error.undecodable(name));
  }
  try {
    return draw(bitmap, bitmap.width, bitmap.height, name);
  } finally {
    bitmap.close();
  }
}

/** Draw anything drawable on a canvas of its own, capped in size. */
export function draw(
  source: CanvasImageSource,
  sourceWidth: number,
  sourceHeight: number,
  name: string,
): Picture {
  const { width, height } = capped(sourceWidth, sourceHeight);
  const canvas = document.createElement("canvas");
  canvas.width = width;
  canvas.height = height;
  const context = context2d(canvas, { willReadFrequently: true });
  context.imageSmoothingQuality = "high";
  context.drawImage(source, 0, 0, width, height);
  if (width === sourceWidth && height === sourceHeight) {
    return { name, canvas };
  }
  const from = `${sourceWidth} × ${sourceHeight}`;
  return { name, canvas, reduced: TEXT.input.tooLarge(from, `${width} × ${height}`) };
}

/** The picture as the tensor `image`: uint8 [height, width, 4]. */
export function pixels({ canvas }: Picture): TensorLike {
  const { data, width, height } = context2d(canvas, { willReadFrequently: true }).getImageData(
    0,
    0,
    canvas.width,
    canvas.height,
  );
  return { data: new Uint8Array(data.buffer), dims: [height, width, 4] };
}
