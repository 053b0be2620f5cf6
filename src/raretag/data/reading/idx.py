"""The IDX format of MNIST: a header of big-endian sizes, then bytes."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from raretag.data.reading.bounded import MEGABYTE, read, shown, wrong


def array(path: Path, dimensions: int, limit: int = 512 * MEGABYTE) -> NDArray[np.uint8]:
    """The unsigned bytes of a file with this number of dimensions; gzipped or not."""
    data = read(path, limit)
    if data[:4] != bytes([0, 0, 8, dimensions]):
        expected = f"IDX file of unsigned bytes with {dimensions} dimensions"
        raise wrong(path, f"starts with {shown(data[:4])}; expected an {expected}")
    header = 4 + 4 * dimensions
    shape = [int.from_bytes(data[place : place + 4], "big") for place in range(4, header, 4)]
    if len(data) < header or len(data) - header != math.prod(shape):
        raise wrong(path, f"has {len(data) - header:,} bytes for an array of {shape}; was the download interrupted?")
    if not math.prod(shape):
        raise wrong(path, f"holds an array of {shape}; expected at least one item")
    return np.frombuffer(data, np.uint8, offset=header).reshape(shape)
