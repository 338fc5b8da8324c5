import { describe, expect, it } from "vitest";
import { ends } from "./file-type.ts";
import { capped } from "./image.ts";

describe("capped", () => {
  it.each([
    [640, 480, 640, 480],
    [4096, 4096, 4096, 4096],
    [8192, 4096, 4096, 2048],
    [3000, 6000, 2048, 4096],
    [100000, 10, 4096, 1],
  ])("%d × %d becomes %d × %d", (width, height, toWidth, toHeight) => {
    expect(capped(width, height)).toEqual({ width: toWidth, height: toHeight });
  });
});

describe("ends", () => {
  const numbered = (length: number) => Uint8Array.from({ length }, (_, index) => index % 251);

  it.each([0, 1, 8192])("is all of a file of %d bytes", async (length) => {
    expect(await ends(new Blob([numbered(length)]))).toEqual(numbered(length));
  });

  it("is the first and last 4096 bytes of a longer one", async () => {
    const content = numbered(8193);
    const expected = [...content.slice(0, 4096), ...content.slice(4097)];
    expect([...(await ends(new Blob([content])))]).toEqual(expected);
  });
});
