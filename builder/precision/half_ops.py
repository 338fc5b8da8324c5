"""Tables for half precision: operators that compute in it, that only move data, and exemptions."""

from __future__ import annotations

COMPUTE = frozenset(
    "Abs Add AveragePool BatchNormalization Ceil Clip Conv ConvTranspose Div Einsum Elu Erf Exp "
    "Floor Gelu Gemm GlobalAveragePool GlobalMaxPool HardSigmoid InstanceNormalization "
    "LayerNormalization LeakyRelu Log MatMul MaxPool Mul Neg Pow Reciprocal ReduceL1 ReduceL2 "
    "ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum "
    "ReduceSumSquare Relu Resize Sigmoid Softmax Sqrt Sub Tanh".split()
)
"""Computed in half where ranges allow; all of them have a WebGPU kernel. Not here, so kept:
operators that run on the CPU, where half is cast to fp32 and back; comparisons, ArgMax and TopK (a
rounded value gives another index); Range and CumSum (counts above 2048 aren't exact); trigonometry
(large arguments); Round, Sign and Mod (steps); recurrent and random operators, coordinates,
quantization and signal processing; ThresholdedRelu, whose shader doesn't compile in half."""

NO_SHADER = frozenset(("Clip", "Pad"))
"""Their shaders don't compile in half on WebGPU (onnxruntime-web 1.30 and Firefox with
`shader-f16`; every other operator of `COMPUTE` and `MOVERS` does, and gives what the CPU gives)."""

FUSED = frozenset(("Clip",))
"""Those of them that the shader of a convolution does too, which compiles."""

CONTRIB = frozenset(("com.microsoft", name) for name in ("MatMulNBits", "Gelu", "FastGelu"))
"""onnxruntime's own operators that compute in half."""

MOVERS = frozenset(
    "Concat DepthToSpace Expand Flatten Gather GatherElements GatherND Identity Pad Reshape Slice "
    "SpaceToDepth Split Squeeze Tile Transpose Unsqueeze Where".split()
)
"""Move elements without computing: they follow the precision of what they move."""

NEUTRAL = frozenset(("Shape", "Size"))
"""Read any type and give none of it on."""

EXEMPT_INPUTS: dict[str, frozenset[int]] = {
    "Resize": frozenset((1, 2)),
    "Upsample": frozenset((1,)),
}
"""Inputs that stay fp32 beside a half one: `roi` may be half by the schema, but no kernel takes it.
Inputs that the schema itself wants in fp32 need no row."""

NO_3D = frozenset(
    "AveragePool Conv ConvTranspose GlobalAveragePool GlobalMaxPool InstanceNormalization MaxPool "
    "Resize".split()
)
"""With three spatial dimensions these stay fp32: Conv3D in half doesn't compile on WebGPU."""

EPSILON_FOLLOWERS = frozenset("Sqrt Reciprocal Div Log Pow".split())
"""After an epsilon was added these read a value that half would flush to 0."""

MASK_PATH = frozenset("Add Expand Identity Reshape Slice Squeeze Transpose Unsqueeze Where".split())
"""Between a mask and the Softmax that it is for."""
