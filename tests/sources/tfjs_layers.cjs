// Make layers models with TensorFlow.js itself, save them, and write down what it predicts.
// node tfjs_layers.cjs TFJS FOLDER
"use strict";
const fs = require("node:fs");
const path = require("node:path");

const [, , library, folder] = process.argv;
const tf = require(library);
const l = tf.layers;

const dense = () =>
  tf.sequential({
    layers: [
      l.dense({ units: 8, activation: "relu", inputShape: [4] }),
      l.dropout({ rate: 0.5 }),
      l.dense({ units: 3, activation: "softmax" }),
    ],
  });

const picture = () =>
  tf.sequential({
    layers: [
      l.zeroPadding2d({ padding: [[1, 0], [2, 1]], inputShape: [15, 13, 3] }),
      l.conv2d({ filters: 6, kernelSize: 3, strides: 2, padding: "same" }),
      l.batchNormalization({}),
      l.reLU({ maxValue: 6 }),
      l.depthwiseConv2d({ kernelSize: 3, padding: "same", depthMultiplier: 2 }),
      l.leakyReLU({ alpha: 0.2 }),
      l.separableConv2d({ filters: 8, kernelSize: 3, padding: "same", activation: "elu" }),
      l.prelu({}),
      l.upSampling2d({ size: [2, 3] }),
      l.maxPooling2d({ poolSize: 3, strides: 2, padding: "same" }),
      l.averagePooling2d({ poolSize: 2 }),
      l.cropping2D({ cropping: [[1, 0], [0, 1]] }),
      l.conv2dTranspose({ filters: 4, kernelSize: 3, strides: 2, padding: "same" }),
      l.flatten({}),
      l.dense({ units: 5 }),
    ],
  });

const branches = () => {
  const x = tf.input({ shape: [8, 8, 2], name: "x" });
  const a = l.conv2d({ filters: 4, kernelSize: 3, padding: "same", activation: "sigmoid" }).apply(x);
  const b = l.conv2d({ filters: 4, kernelSize: 1, dilationRate: 1 }).apply(x);
  const sum = l.add().apply([a, b]);
  const most = l.maximum().apply([a, l.multiply().apply([a, b])]);
  const all = l.concatenate().apply([sum, most, l.average().apply([a, b]), l.minimum().apply([a, b])]);
  const mean = l.globalAveragePooling2d({ name: "mean" }).apply(all);
  const most2 = l.globalMaxPooling2d({}).apply(all);
  const wide = l.reshape({ targetShape: [4, 4] }).apply(mean);
  const turned = l.permute({ dims: [2, 1], name: "turned" }).apply(wide);
  const logits = l.dense({ units: 3, name: "logits" }).apply(l.concatenate().apply([mean, most2]));
  return tf.model({ inputs: x, outputs: [logits, turned] });
};

const two = () => {
  const left = tf.input({ shape: [6], name: "left" });
  const right = tf.input({ shape: [6], name: "right" });
  const shared = l.dense({ units: 4, activation: "tanh" });
  const both = l.concatenate().apply([shared.apply(left), shared.apply(right)]);
  return tf.model({ inputs: [left, right], outputs: l.dense({ units: 2, name: "score" }).apply(both) });
};

const sequence = (layer) => () =>
  tf.sequential({ layers: [l.embedding({ inputDim: 20, outputDim: 5, inputLength: 7 }), ...layer()] });

const nested = () => {
  const inner = tf.sequential({
    name: "inner",
    layers: [l.dense({ units: 5, activation: "relu", inputShape: [4] }), l.layerNormalization({})],
  });
  const x = tf.input({ shape: [4], name: "x" });
  return tf.model({ inputs: x, outputs: l.dense({ units: 2, name: "out" }).apply(inner.apply(x)) });
};

const steps = () =>
  tf.sequential({
    layers: [
      l.conv1d({ filters: 4, kernelSize: 3, padding: "valid", activation: "relu", inputShape: [12, 3] }),
      l.maxPooling1d({ poolSize: 2 }),
      l.conv1d({ filters: 4, kernelSize: 3, strides: 2, padding: "same" }),
      l.timeDistributed({ layer: l.dense({ units: 3 }) }),
      l.globalAveragePooling1d({}),
      l.repeatVector({ n: 2 }),
    ],
  });

const MODELS = {
  "perceptron": dense,
  "convolutions": picture,
  "branches": branches,
  "two inputs, a layer shared": two,
  "embedding, LSTM": sequence(() => [l.lstm({ units: 6 }), l.dense({ units: 2 })]),
  "GRU, backwards": sequence(() => [
    l.gru({ units: 6, goBackwards: true, returnSequences: true, recurrentActivation: "hardSigmoid" }),
    l.dense({ units: 2 }),
  ]),
  "both directions": sequence(() => [
    l.bidirectional({ layer: l.lstm({ units: 4, returnSequences: true }), mergeMode: "concat" }),
    l.bidirectional({ layer: l.gru({ units: 3 }), mergeMode: "sum" }),
    l.repeatVector({ n: 3 }),
    l.simpleRNN({ units: 4 }),
  ]),
  "nested": nested,
  "sequences": steps,
};

const shape = (tensor) => tensor.shape.map((n, axis) => n ?? (axis === 0 ? 3 : 7));

async function main() {
  await tf.setBackend("cpu");
  let seed = 1;
  for (const [name, make] of Object.entries(MODELS)) {
    const model = make();
    model.setWeights(
      model.getWeights().map((w) => w.add(tf.randomNormal(w.shape, 0, 0.3, "float32", seed++).abs())),
    );
    const here = path.join(folder, name);
    fs.mkdirSync(here, { recursive: true });
    await model.save({
      async save(made) {
        const paths = ["weights.bin"];
        const manifest = [{ paths, weights: made.weightSpecs }];
        const { modelTopology } = made;
        const content = { format: "layers-model", modelTopology, weightsManifest: manifest };
        fs.writeFileSync(path.join(here, "model.json"), JSON.stringify(content));
        const data = tf.io.CompositeArrayBuffer ? tf.io.CompositeArrayBuffer.join(made.weightData) : made.weightData;
        fs.writeFileSync(path.join(here, "weights.bin"), Buffer.from(data));
        return { modelArtifactsInfo: tf.io.getModelArtifactsInfoForJSON(made) };
      },
    });
    const ids = model.layers.some((layer) => layer.getClassName() === "Embedding");
    const inputs = model.inputs.map((tensor) =>
      ids
        ? tf.randomUniform(shape(tensor), 0, 20, "float32", seed++).floor()
        : tf.randomNormal(shape(tensor), 0, 1, "float32", seed++),
    );
    const results = [model.predict(inputs.length === 1 ? inputs[0] : inputs)].flat();
    const told = (tensor) => ({ shape: tensor.shape, data: [...tensor.dataSync()] });
    const said = { inputs: inputs.map(told), outputs: results.map(told) };
    fs.writeFileSync(path.join(here, "data.json"), JSON.stringify(said));
  }
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
