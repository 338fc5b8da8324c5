"""Names for the free axes of inputs, where a framework only says that they are free."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

NAMES: Mapping[int, Sequence[str]] = {
    1: ("batch",),
    2: ("batch", "length"),
    3: ("batch", "length", "features"),
    4: ("batch", "height", "width", "channels"),
    5: ("batch", "frames", "height", "width", "channels"),
}
"""By the number of axes, as TensorFlow orders them."""

FREE = (None, -1)


def named(shapes: Mapping[str, Sequence[int | None]]) -> dict[str, list[int | str]]:
    """The same shapes with a name for each free axis.

    All inputs share `batch`. Any other name that two of them would have gets the input's before it,
    since nothing says that the two are equally long.
    """
    taken: set[str] = set()
    found: dict[str, list[int | str]] = {}
    for name, shape in shapes.items():
        words = NAMES.get(len(shape), ["batch", *(f"axis_{i}" for i in range(1, len(shape)))])
        dims: list[int | str] = []
        for dim, word in zip(shape, words, strict=True):
            own = word if word not in taken else f"{name}_{word}"
            dims.append(own if dim in FREE or dim is None else int(dim))
        taken |= {dim for dim in dims if isinstance(dim, str)} - {"batch"}
        found[name] = dims
    return found
