/** Every text that scripts put on a page, in one place. */
import type { VariantName } from "../runtime/index.ts";
import { formatBytes, formatCount, formatDuration } from "./format.ts";

const DEVICES: Record<string, string> = { auto: "automatic", webgpu: "WebGPU", wasm: "WASM" };

/** A fault's headline, what happened and what the visitor can do. */
export interface ErrorText {
  readonly title: string;
  readonly message: string;
  readonly advice: string;
}

export const TEXT = {
  device: (name: string) => DEVICES[name] ?? name,

  status: {
    waiting: (size: number) => `Ready to download the model (about ${formatBytes(size)}).`,
    pending: (size: number) => `Download the model (about ${formatBytes(size)}) to see the result.`,
    starting: "Preparing the model…",
    downloading: "Downloading the model…",
    checking: "Checking the model on this device…",
    ready: "Ready. Choose an input.",
    done: (milliseconds: number) => `Done in ${formatDuration(milliseconds)}.`,
    reading: (name: string) => `Reading ${name}…`,
    running: "Running…",
    testing: "Comparing with the stored reference…",
    cancelled: "Download cancelled.",
    failed: "Something went wrong.",
  },
  load: {
    button: (size: number) => `Download and start (about ${formatBytes(size)})`,
    bytes: (loaded: number, total: number) => `${formatBytes(loaded)} of ${formatBytes(total)}`,
    progress: "Download of the model",
    cancel: "Cancel",
  },
  badge: {
    threads: (count: number) => (count === 1 ? "1 thread" : `${formatCount(count)} threads`),
    runtime: (version: string, flavour: string) => `onnxruntime-web ${version} (${flavour})`,
    why: "Why?",
    adapter: (name: string) => `Graphics adapter: ${name}`,
  },
  dtype: {
    auto: "automatic",
    named: (dtype: VariantName, size: number) => `${dtype} (${formatBytes(size)})`,
  },
  note: {
    ignored: (name: string, value: string, allowed: string) =>
      `The address asks for ${name}=${value}, which this model does not offer (${allowed}); ` +
      "the automatic choice is used.",
  },
  retry: "Try again",
  selfTest: {
    button: "Check on this device",
    caption: (device: string, dtype: string) =>
      `Results on this device (${DEVICES[device] ?? device}, ${dtype}) against the stored reference`,
    columns: ["Reference", "Output", "Signal to noise", "Required", "Result"],
    /** 200 dB stands for equal. */
    decibels: (value: number) => (value < 200 ? `${value.toFixed(1)} dB` : "equal"),
    passed: "passed",
    failed: "failed",
    allPassed: "All outputs agree with the reference.",
    someFailed: "Some outputs differ from the reference more than this variant allows.",
  },
  update: { ready: "A new version is ready.", reload: "Reload" },
  cores: {
    offer: (count: number) =>
      `This device has ${formatCount(count)} cores and the model uses one. The page can change ` +
      "that: it is then loaded once more.",
    use: "Use all cores",
    unsupported:
      "The model uses one core. This browser does not let this page change that: it needs https, " +
      "and a window that is not private.",
    failed: "The page could not change that. The model goes on with one core.",
  },
  offline: {
    make: (size: number) => `Make available offline (${formatBytes(size)})`,
    storing: "Storing…",
    available: "Available offline",
    failed: "This model could not be stored for offline use.",
    cleared: "No longer stored on this device.",
  },
  storage: {
    title: "Stored on this device",
    close: "Close",
    reading: "Looking…",
    empty: "Nothing is stored yet. A model that you run is kept here, so that it starts at once.",
    none: (reason: string) =>
      `This browser stores no models here (${reason}): each visit downloads them anew.`,
    failed: (why: string) => `What is stored could not be read or changed (${why}).`,
    summary: (models: number, bytes: number, quota: number | undefined) => {
      const what =
        models === 0
          ? "Unfinished downloads take"
          : models === 1
            ? "One model takes"
            : `${formatCount(models)} models take`;
      const allowed = quota === undefined ? "" : ` of about ${formatBytes(quota)} that are allowed`;
      return `${what} ${formatBytes(bytes)}${allowed}. Files that models share are counted once.`;
    },
    caption: "Models, the one used last first",
    columns: ["Model", "Size", "Last used", ""],
    delete: "Delete",
    deleteNamed: (title: string) => `Delete ${title}`,
    deleteAll: "Delete everything",
    protect: "Keep when the disk fills up",
    protected: "The browser keeps it even when the disk fills up.",
    unprotected: "The browser may delete it when the disk fills up.",
  },
  copy: { done: "Copied", failed: "Copy failed: select the text instead" },
  gallery: {
    count: (shown: number, all: number) => `${formatCount(shown)} of ${formatCount(all)} models`,
  },

  input: {
    samples: "Samples",
    dropImage: "Drop a picture here, paste one, or",
    dropFiles: "Drop files here, or",
    chooseImage: "choose a picture",
    chooseFiles: "choose files",
    camera: "use the camera",
    or: "or",
    tooLarge: (from: string, to: string) =>
      `The picture (${from}) was reduced to ${to} before it was given to the model.`,
    oneOfMany: (count: number) => `${formatCount(count)} files were given; the first was used.`,
    pasted: "the pasted picture",
    frame: "the camera picture",
  },
  camera: {
    label: "Camera",
    take: "Take picture",
    live: "Start live",
    stop: "Stop live",
    close: "Close camera",
    running: "Live: every picture of the camera is looked at on this device.",
    stopped: "Live view stopped.",
    rate: (framesPerSecond: number) => `${framesPerSecond.toFixed(1)} frames per second`,
  },
  picture: (name: string, width: number, height: number) => `${name}, ${width} × ${height} pixels`,
  classification: {
    empty: "Choose a picture and the most likely labels appear here.",
    heading: "Most likely",
    unnamed: (index: number) => `class ${index}`,
  },
  faces: {
    empty: "Choose a picture and the faces in it are marked here.",
    count: (count: number) =>
      count === 0 ? "No face found" : count === 1 ? "1 face" : `${formatCount(count)} faces`,
    threshold: "Least score",
    blur: "Blur faces",
    marks: "Show marks",
    download: "Download picture",
    file: "faces.png",
    caption: "Faces, most certain first; coordinates in pixels of the picture",
    columns: ["#", "Score", "Left, top", "Right, bottom"],
    notSaved: "The browser could not write the picture.",
    none: "No face reaches this score. A lower one shows less certain finds.",
    canvas: (count: number) => `The picture with ${formatCount(count)} marked faces`,
  },
  files: {
    empty: "Choose files and their types appear here.",
    caption: "Types found, latest first",
    columns: ["Name", "Size", "Type", "Confidence", "Next best"],
    working: (at: number, count: number) => `File ${formatCount(at)} of ${formatCount(count)}…`,
    clear: "Clear list",
    emptyFile: "empty file",
    none: "–",
  },
  tensors: {
    inputs: "Inputs",
    outputs: "Outputs",
    dimensions: "Sizes that you choose",
    dimension: (name: string) => `Size ${name}`,
    source: "Values",
    sources: {
      random: "random",
      zeros: "zeros",
      numbers: "numbers",
      npy: ".npy file",
      reference: "stored reference",
    },
    numbers: "Numbers, in row-major order; one number fills the tensor",
    typedWords: "words",
    /** What a tensor holds, for visitors: places in a vocabulary are the words at them. */
    type: (dtype: string, words: readonly string[] | undefined) => (words ? "words" : dtype),
    words: (known: readonly string[]) =>
      `Words, separated by commas; one word fills the tensor. Known are: ${known.join(", ")}`,
    npy: "NumPy file",
    useReference: "Use stored reference",
    run: "Run",
    empty: "Set the inputs and run the model: outputs appear here.",
    columns: ["Minimum", "Maximum", "Mean", "Standard deviation"],
    first: (count: number) => (count === 1 ? "Value" : `First ${formatCount(count)} values`),
    nonFinite: (count: number) => `${formatCount(count)} values are not finite`,
    noValues: "no values",
    downloadNpy: "Download .npy",
    downloadJson: "Download JSON",
    slice: "Slice",
    heatMap: (name: string) => `Heat map of ${name}`,
    range: (low: string, high: string) => `${low} (dark) to ${high} (bright)`,
    time: (milliseconds: number) => `Ran in ${formatDuration(milliseconds)}`,
    shape: (dims: readonly (number | string)[]) =>
      dims.length ? `[${dims.join(", ")}]` : "scalar",
  },

  error: {
    unexpected: {
      title: "Something went wrong",
      advice: "Try again. If it stays, reload the page or pick another device above.",
    },
    load: { title: "The model could not be started" },
    run: { title: "The model could not be run" },
    notAnImage: (name: string): ErrorText => ({
      title: "Not a picture",
      message: `${name} is not a picture.`,
      advice: "Choose a JPEG, PNG, WebP, GIF or AVIF file.",
    }),
    undecodable: (name: string): ErrorText => ({
      title: "The picture could not be read",
      message: `The browser cannot decode ${name}: it is damaged, or of a kind it does not know.`,
      advice: "Choose a JPEG or PNG file, or save the picture anew.",
    }),
    cameraRefused: {
      title: "No access to the camera",
      message: "The browser did not allow this page to use the camera.",
      advice: "Allow the camera in the browser's site settings and try again, or choose a picture.",
    } satisfies ErrorText,
    cameraMissing: {
      title: "No camera",
      message: "No camera was found, or another program is using it.",
      advice: "Connect a camera or close the other program, or choose a picture.",
    } satisfies ErrorText,
    fetch: (name: string, why: string): ErrorText => ({
      title: "A file of this site could not be loaded",
      message: `${name}: ${why}.`,
      advice: "Check the connection and try again.",
    }),
    status: (status: number) => `the server answered ${status}`,
    changed: "it is not the file that was built",
    unreadable: (name: string): ErrorText => ({
      title: "The file could not be read",
      message: `The browser cannot read ${name}.`,
      advice: "Check that it is a file, not a folder, and that it still exists.",
    }),
    badInput: (name: string, message: string, advice: string): ErrorText => ({
      title: `Input ${name} is not usable`,
      message,
      advice,
    }),
    npy: {
      notNpy: "This is not a .npy file.",
      order: "Big-endian .npy files are not supported.",
      dtype: (descr: string) => `The .npy file's type ${descr} is not supported.`,
      short: "The .npy file is shorter than its header says.",
      advice: 'Save it with numpy.save("file.npy", array) as a little-endian array.',
    },
    shape: (got: string, want: string) => `Its shape is ${got}; the model takes ${want}.`,
    shapeAdvice: "Give an array of that shape.",
    noFile: "No .npy file is chosen.",
    noFileAdvice: "Choose a file, or other values.",
    dimension: (name: string) => `The size ${name} must be a whole number, 1 or more.`,
    dimensionAdvice: "Set it above.",
    tooBig: (count: number) => `It would have ${formatCount(count)} values.`,
    tooBigAdvice: "Choose smaller sizes.",
    number: (token: string) => `“${token}” is not a number of this input's type.`,
    numberAdvice: "Separate numbers with commas, blanks or lines.",
    count: (got: number, want: number) =>
      `${formatCount(got)} numbers were given; its shape takes ${formatCount(want)}.`,
    countAdvice: "Give one number to fill the tensor, or exactly as many as it holds.",
  },
} as const;
