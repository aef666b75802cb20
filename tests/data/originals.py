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


def nifti_bytes(volume: np.ndarray, *, order: str = "<", slope: float = 0.0) -> bytes:
    codes = {"u1": 2, "i2": 4, "f4": 16}
    head = bytearray(352)
    head[:4] = np.array(348, order + "i4").tobytes()
    dim = np.ones(8, order + "i2")
    dim[0], dim[1 : 1 + volume.ndim] = volume.ndim, volume.shape
    head[40:56] = dim.tobytes()
    head[70:72] = np.array(codes[volume.dtype.str[1:]], order + "i2").tobytes()
    head[108:120] = np.array([352, slope, 1.0], order + "f4").tobytes()
    head[344:348] = b"n+1\0"
    return bytes(head) + volume.astype(volume.dtype.newbyteorder(order)).tobytes(order="F")
