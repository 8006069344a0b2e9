"""Runs models from containers: mlrt.open("cat.mlc")("cat.jpg"). See the README."""
from __future__ import annotations

from typing import TYPE_CHECKING as _TYPE_CHECKING

import numpy as _numpy

from . import _arrays, _core, _errors
from ._arrays import empty
from ._core import Cancel, DeviceTensor, Tensor, ThreadPool
from ._errors import (BadSignature, Cancelled, Error, Expired, InputMismatch, InternalError, Malformed, NotFound,
                      NoVariant, ResourceError, SelftestFailed, TrustError, Unsigned, Unsupported, Untrusted, UsageError)
from ._model import (Box, Dim, Line, Model, PipelineInput, PipelineOutput, Port, Scored, Selftest, Session, open)

if _TYPE_CHECKING:
    from ._async import Run
    from ._build import build
    from ._stream import Chunk, Stream


def __getattr__(name: str) -> object:
    """What few programs use comes when it is asked for: its modules of Python take longer to load than a model."""
    if name == "Run":
        from ._async import Run as found
    elif name == "build":
        from ._build import build as found  # type: ignore[assignment]
    elif name in ("Chunk", "Stream"):
        from . import _stream

        found = getattr(_stream, name)  # type: ignore[misc]
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


_core.set_hooks(_errors.make, _arrays.convert, _arrays.strings, _arrays.string_array, _arrays.extended_array,
                _numpy.asarray)

__version__: str = _core.version()
__all__ = [
    "BadSignature", "Box", "Cancel", "Chunk", "Cancelled", "DeviceTensor", "Dim", "Error", "Expired", "InputMismatch", "InternalError", "Line",
    "Malformed", "Model", "NoVariant", "NotFound", "PipelineInput", "PipelineOutput", "Port", "ResourceError", "Run", "Scored",
    "Selftest", "SelftestFailed", "Session", "Stream", "Tensor", "ThreadPool", "TrustError", "Unsigned", "Unsupported", "Untrusted",
    "UsageError", "build", "empty", "open",
]
