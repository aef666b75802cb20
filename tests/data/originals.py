"""Small files in original formats, as bytes."""

from __future__ import annotations

import numpy as np


def idx_bytes(array: np.ndarray) -> bytes:
    codes = {"u1": 8, "i4": 12}
    head = bytes([0, 0, codes[array.dtype.str[1:]], array.ndim])
    return (
        head
        + np.array(array.shape, ">u4").tobytes()
        + array.astype(array.dtype.newbyteorder(">")).tobytes()
    )
