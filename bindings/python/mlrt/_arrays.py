"""What the extension asks of NumPy: arrays of anything, of strings, and of types that NumPy has not."""
from __future__ import annotations

import functools
from typing import Any

import numpy as np

from . import _core, _errors


@functools.cache
def _ml_dtypes() -> Any:
    """None where it is not installed: its types are shown as integers. Loaded when a model has such types."""
    try:
        import ml_dtypes
    except ImportError:
        return None
    return ml_dtypes


# Element types as NumPy has them.
NUMPY = {"f64": np.float64, "f32": np.float32, "f16": np.float16, "i64": np.int64, "i32": np.int32, "i16": np.int16,
         "i8": np.int8, "u64": np.uint64, "u32": np.uint32, "u16": np.uint16, "u8": np.uint8, "bool": np.bool_}
# Those of ml_dtypes, and the integers that stand for them without it.
EXTENDED = {"bf16": ("bfloat16", np.uint16), "f8e4m3": ("float8_e4m3fn", np.uint8), "f8e5m2": ("float8_e5m2", np.uint8),
            "f8e4m3fnuz": ("float8_e4m3fnuz", np.uint8), "f8e5m2fnuz": ("float8_e5m2fnuz", np.uint8),
            "f4e2m1": ("float4_e2m1fn", np.uint8), "f8e8m0": ("float8_e8m0fnu", np.uint8), "i4": ("int4", np.int8),
            "u4": ("uint4", np.uint8), "i2": ("int2", np.int8), "u2": ("uint2", np.uint8),
            "f6e2m3": ("float6_e2m3fn", np.uint8), "f6e3m2": ("float6_e3m2fn", np.uint8)}
_BY_NAME = {name: short for short, (name, _) in EXTENDED.items()}


def numpy_type(dtype: str) -> Any:
    """The NumPy type of an element type: with ml_dtypes its own, else the integers that stand for it."""
    if dtype in NUMPY:
        return np.dtype(NUMPY[dtype])
    if dtype == "str":
        return np.dtype(object)
    name, carrier = EXTENDED[dtype]
    return np.dtype(getattr(_ml_dtypes(), name, carrier))


def _exact(value: Any, wanted: np.dtype[Any]) -> Any:
    """Numbers and lists of them as this type: whole numbers that it holds, where it is one of integers."""
    if wanted.kind not in "iu":
        return np.asarray(value, dtype=wanted)
    found = np.asarray(value)
    if found.dtype.kind not in "iufb" or found.size == 0:
        return np.asarray(value, dtype=wanted)
    with np.errstate(invalid="ignore"):
        whole = found.astype(wanted)
    wrong = np.flatnonzero((whole != found).ravel())
    if wrong.size:
        raise _errors.InputMismatch(f"{found.ravel()[wrong[0]]} is not a number that {wanted.name} holds, at place {wrong[0]} of an input",
                                    number="E4001", help="values are not cut: round or cast them yourself")
    return whole


def _widened(array: Any, dtype: str) -> Any:
    """Arrays of integers that fit into the integers that the model wants."""
    wanted = np.dtype(NUMPY.get(dtype, np.float32))
    if wanted.kind in "iu" and array.dtype.kind in "iu" and array.dtype != wanted and np.can_cast(array.dtype, wanted, "safe"):
        return array.astype(wanted)
    return array


def convert(value: Any, dtype: str) -> tuple[Any, str]:
    """`value` as something dense with a buffer, and its type where the buffer cannot say it, else "".

    Numbers and lists become what the model wants, if that changes none of them; arrays keep their type, but that integers
    become wider ones."""
    if hasattr(value, "contiguous"):  # a tensor of PyTorch: with gaps, or to be widened
        value = value.contiguous()
        if np.dtype(NUMPY.get(dtype, np.float32)).kind not in "iu" or value.is_floating_point():
            return value, ""
        value = np.asarray(value)
    if not hasattr(value, "dtype"):
        known = dtype not in ("none", "str")
        value = _exact(value, numpy_type(dtype)) if known else np.asarray(value)
    array = np.ascontiguousarray(value).reshape(np.shape(value))
    short = _BY_NAME.get(array.dtype.name, "")
    if short:
        return array.view(EXTENDED[short][1]), short
    return _widened(array.astype(array.dtype.newbyteorder("="), copy=False), dtype), ""


def strings(value: Any) -> tuple[tuple[int, ...], list[bytes]]:
    """The shape and the elements, as UTF-8, of an array of strings or of what NumPy makes one of."""
    array = np.asarray(value, dtype=None if hasattr(value, "dtype") else object)
    out: list[bytes] = []
    for item in array.ravel().tolist():
        if isinstance(item, str):
            out.append(item.encode("utf-8", "surrogateescape"))
        elif isinstance(item, bytes):
            out.append(item)
        else:
            raise TypeError(f"an element is {type(item).__name__}, expected str or bytes")
    return array.shape, out


def string_array(shape: list[int], items: list[str]) -> Any:
    array = np.empty(len(items), dtype=object)
    array[:] = items
    return array.reshape(shape)


def extended_array(array: Any, dtype: str) -> Any:
    return array.view(numpy_type(dtype))


def empty(shape: Any, dtype: Any = np.float32) -> Any:
    """An array whose memory a model uses as it is: 64-byte aligned, as NumPy's own seldom are. Zeros."""
    extents = [shape] if isinstance(shape, int) else list(shape)
    if isinstance(dtype, str) and (dtype in NUMPY or dtype in EXTENDED):
        return _core.zeros(dtype, extents).numpy()
    wanted = np.dtype(dtype)
    short = _BY_NAME.get(wanted.name) or next((s for s, t in NUMPY.items() if np.dtype(t) == wanted), None)
    if short is None:
        raise TypeError(f"no model takes elements of type {wanted}")
    return _core.zeros(short, extents).numpy()
