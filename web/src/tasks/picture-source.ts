/** Inputs of the tasks that take one picture: files, samples and the camera, decoded. */
import { TEXT } from "../pages/text.ts";
import { buildCamera, cameraOffered } from "./camera.ts";
import { decode, type Picture } from "./image.ts";
import { buildSource, type Given } from "./source.ts";
import type { Page, Turn } from "./task.ts";

export type TakePicture = (picture: Picture, turn: Turn) => Promise<void>;

/** Build the controls; `use` is called with each picture, in the place of an earlier one. */
export function buildPictureSource(
  page: Page,
  { live = false }: { readonly live?: boolean },
  use: TakePicture,
): void {
  const useFrame: TakePicture = (picture, turn) => {
    unmark();
    return use(picture, turn);
  };
  const camera = cameraOffered()
    ? buildCamera(page, {
        take: (picture) => {
          unmark();
          void page.take(async (turn) => {
            await use(picture, turn);
            return undefined;
          });
        },
        ...(live ? { live: useFrame } : {}),
      })
    : undefined;

  const takeGiven = (given: readonly Given[]) => {
    camera?.stop();
    void page.take(async (turn) => {
      const [first] = given;
      if (first === undefined) {
        return undefined;
      }
      turn.say(TEXT.status.reading(first.name));
      const picture = await decode(await first.read(turn), first.name);
      turn.signal.throwIfAborted();
      await use(picture, turn);
      return given.length > 1 ? TEXT.input.oneOfMany(given.length) : undefined;
    });
  };

  const unmark = buildSource(
    page,
    {
      accept: "image/*",
      multiple: false,
      prompt: TEXT.input.dropImage,
      choose: TEXT.input.chooseImage,
      ...(camera ? { camera: camera.open } : {}),
    },
    takeGiven,
  );
}
