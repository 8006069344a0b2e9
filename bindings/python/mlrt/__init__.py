"""Runs models from containers: mlrt.open("cat.mlc")("cat.jpg"). See the README."""
from __future__ import annotations

import numpy as _numpy

from . import _arrays, _core, _errors
from ._arrays import empty
from ._async import Run
from ._build import build
from ._core import Cancel, Tensor, ThreadPool
from ._errors import (BadSignature, Cancelled, Error, Expired, InputMismatch, InternalError, Malformed, NotFound,
                      NoVariant, ResourceError, SelftestFailed, TrustError, Unsigned, Unsupported, Untrusted, UsageError)
from ._model import (Dim, Line, Model, PipelineInput, PipelineOutput, Port, Scored, Selftest, Session, open)

_core.set_hooks(_errors.make, _arrays.convert, _arrays.strings, _arrays.string_array, _arrays.extended_array,
                _numpy.asarray)

__version__: str = _core.version()
__all__ = [
    "BadSignature", "Cancel", "Cancelled", "Dim", "Error", "Expired", "InputMismatch", "InternalError", "Line",
    "Malformed", "Model", "NoVariant", "NotFound", "PipelineInput", "PipelineOutput", "Port", "ResourceError", "Run", "Scored",
    "Selftest", "SelftestFailed", "Session", "Tensor", "ThreadPool", "TrustError", "Unsigned", "Unsupported", "Untrusted",
    "UsageError", "build", "empty", "open",
]
