"""CenterFace's four maps to boxes, scores and landmarks in the pixels of the picture given."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from builder.model import TensorSpec
from builder.prepost.draft import Draft

STRIDE = 4
"""Pixels of the model's input per cell of its maps (CenterFace, arXiv:1911.03599, section 3.1)."""

POINTS = 5
"""Landmarks per face: eyes, nose, corners of the mouth."""


def centerface_post(
    maps: Sequence[TensorSpec],
    *,
    score_threshold: float,
    iou_threshold: float,
    limit: int,
    size_name: str = "image_size",
    names: Sequence[str] = ("boxes", "scores", "landmarks"),
    threshold_names: Sequence[str] = ("score_threshold", "iou_threshold"),
) -> ir.Model:
    """Build the graph.

    A cell (row r, column c) of the maps with heat above the threshold is a face with centre
    `(c + offset_x + 0.5, r + offset_y + 0.5) * 4` and size `exp(scale) * 4`; its landmarks are
    fractions of the box from its top left corner (the project's own decoder reads them so). Boxes
    are cut to the picture after that, then greedy non-maximum suppression keeps the best of those
    that overlap. No face is a result of zero rows.

    Args:
        maps: The model's outputs: heat map [1,1,h,w] (after sigmoid), scale [1,2,h,w] (y, x),
            offset [1,2,h,w] (y, x), landmarks [1,10,h,w] (y, x five times).
        score_threshold: Default of the input of that name.
        iou_threshold: Default of the input of that name.
        limit: Most faces reported.
        size_name: Input i64[2] with the picture's height and width.
        names: Of the outputs f32[n,4] (x1, y1, x2, y2), f32[n], f32[n,5,2] (x, y).
        threshold_names: Of the inputs for the thresholds, f32[].
    """
    g = Draft("centerface_post")
    heat, scale, offset, landmarks = (g.input(m.name, m.dtype, m.shape) for m in maps)
    size = g.input(size_name, "int64", [2])
    score_limit = g.input(
        threshold_names[0],
        "float32",
        [],
        default=[score_threshold],
        description="Faces with a lower score are left out; from 0 to 1.",
    )
    overlap_limit = g.input(
        threshold_names[1],
        "float32",
        [],
        default=[iou_threshold],
        description="Of two boxes that overlap by more than this share, the better one is kept.",
    )
    scores = _cells(g, heat, 1, maps[0].dtype, "heat")
    scales = _cells(g, scale, 2, maps[1].dtype, "scale")
    offsets = _cells(g, offset, 2, maps[2].dtype, "offset")
    points = _cells(g, landmarks, 2 * POINTS, maps[3].dtype, "points")

    grid = g.add("Shape", heat, start=2, end=4, name="grid_size")
    centres = _centres(g, grid, offsets)
    extents = g.add("Mul", g.add("Exp", scales, name="growth"), np.float32(STRIDE), name="extents")
    halves = g.add("Mul", extents, np.float32(0.5), name="half_extents")
    # Pixels of the picture per pixel of the model's input, for y and x.
    grid_pixels = g.add("Mul", grid, np.array(STRIDE), name="model_size")
    picture = g.add("Cast", size, to=ir.DataType.FLOAT, name="picture_size")
    model_size = g.add("Cast", grid_pixels, to=ir.DataType.FLOAT, name="model_size_float")
    ratio = g.add("Div", picture, model_size, name="picture_per_model")

    low = g.add("Sub", centres, halves, name="corner_low")
    high = g.add("Add", centres, halves, name="corner_high")
    corners = []
    for corner, name in ((low, "low"), (high, "high")):
        placed = g.add("Mul", corner, ratio, name=f"{name}_in_picture")
        placed = g.add("Max", placed, np.float32(0), name=f"{name}_not_negative")
        placed = g.add("Min", placed, picture, name=f"{name}_inside")
        corners.append(g.add("Gather", placed, np.array([1, 0]), axis=1, name=f"{name}_xy"))
    boxes = g.add("Concat", *corners, axis=1, name="all_boxes")

    kept = _suppressed(g, boxes, scores, limit, overlap_limit, score_limit)
    best = g.add("Gather", boxes, kept, axis=0, name="best_boxes")
    best_scores = g.add("Gather", g.add("Reshape", scores, np.array([-1])), kept, axis=0)
    faces = _landmarks(g, points, low, extents, ratio, kept)
    g.output(
        best,
        names[0],
        "float32",
        ["faces", 4],
        description="Left, top, right and bottom in pixels of the picture, best face first.",
    )
    g.output(
        best_scores, names[1], "float32", ["faces"], description="How sure the model is, 0 to 1."
    )
    g.output(
        faces,
        names[2],
        "float32",
        ["faces", POINTS, 2],
        description="x and y of both eyes, the nose and both corners of the mouth, in pixels.",
    )
    return g.model()


def _cells(g: Draft, value: ir.Value, channels: int, dtype: str, name: str) -> ir.Value:
    """A map [1,channels,h,w] as rows f32[h*w,channels], cells in reading order."""
    if dtype != "float32":
        value = g.add("Cast", value, to=ir.DataType.FLOAT, name=f"{name}_float")
    flat = g.add("Reshape", value, np.array([channels, -1]), name=f"{name}_planes")
    return g.add("Transpose", flat, perm=[1, 0], name=f"{name}_cells")


def _centres(g: Draft, grid: ir.Value, offsets: ir.Value) -> ir.Value:
    """Centres f32[h*w,2] (y, x) in pixels of the model's input."""
    height_width = g.add_many("Split", grid, num_outputs=2, axis=0, outputs=2, name="grid_axes")
    axes = []
    for axis, size in zip("yx", height_width, strict=True):
        count = g.add("Squeeze", size, np.array([0]), name=f"{axis}_count")
        axes.append(g.add("Range", np.array(0), count, np.array(1), name=f"{axis}_steps"))
    rows = g.add("Unsqueeze", axes[0], np.array([1, 2]), name="row_column")
    columns = g.add("Unsqueeze", axes[1], np.array([0, 2]), name="column_row")
    one = np.array([1])
    ones = g.add("Concat", grid, one, axis=0, name="plane_size")
    rows = g.add("Expand", rows, ones, name="row_plane")
    columns = g.add("Expand", columns, ones, name="column_plane")
    places = g.add("Concat", rows, columns, axis=2, name="place_planes")
    places = g.add("Reshape", places, np.array([-1, 2]), name="places")
    places = g.add("Cast", places, to=ir.DataType.FLOAT, name="places_float")
    centres = g.add("Add", places, offsets, name="centres_offset")
    centres = g.add("Add", centres, np.float32(0.5), name="centres_half")
    return g.add("Mul", centres, np.float32(STRIDE), name="centres")


def _suppressed(
    g: Draft,
    boxes: ir.Value,
    scores: ir.Value,
    limit: int,
    overlap_limit: ir.Value,
    score_limit: ir.Value,
) -> ir.Value:
    """Rows kept by greedy non-maximum suppression i64[n], best first."""
    batch = g.add("Unsqueeze", boxes, np.array([0]), name="boxes_batch")
    heat = g.add("Reshape", scores, np.array([1, 1, -1]), name="scores_batch")
    one = np.array([1])
    selected = g.add(
        "NonMaxSuppression",
        batch,
        heat,
        np.array([limit]),
        g.add("Reshape", overlap_limit, one, name="overlap_limit"),
        g.add("Reshape", score_limit, one, name="score_limit"),
        name="selected",
    )
    # Columns are batch, class and box.
    return g.add("Gather", selected, np.array(2), axis=1, name="kept")


def _landmarks(
    g: Draft,
    points: ir.Value,
    low: ir.Value,
    extents: ir.Value,
    ratio: ir.Value,
    kept: ir.Value,
) -> ir.Value:
    """Landmarks f32[n,5,2] (x, y) in pixels of the picture."""
    chosen = g.add("Gather", points, kept, axis=0, name="kept_points")
    chosen = g.add("Reshape", chosen, np.array([-1, POINTS, 2]), name="kept_point_pairs")
    sides = []
    for value, name in ((extents, "extents"), (low, "corners")):
        rows = g.add("Gather", value, kept, axis=0, name=f"kept_{name}")
        sides.append(g.add("Unsqueeze", rows, np.array([1]), name=f"kept_{name}_per_point"))
    inside = g.add("Mul", chosen, sides[0], name="points_in_box")
    placed = g.add("Add", inside, sides[1], name="points_in_model")
    scaled = g.add("Mul", placed, ratio, name="points_in_picture")
    return g.add("Gather", scaled, np.array([1, 0]), axis=2, name="points_xy")
