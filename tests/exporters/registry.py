"""What the suite has: models by name, how each is made and in which forms it is exported.

A form is words joined by dots: the exporter (`ts`, `dynamo`, or `direct` for libraries that write ONNX themselves), `free` where extents
stay free, a precision (`f16`, `bf16`; else f32) and a quantiser of ONNX Runtime (`qdq`, `qop`, `dynamic`). Families import the
library they need when a model is made, not before, so that the list of models costs nothing.
"""
import fnmatch
from dataclasses import dataclass, field
from typing import Any, Callable

PRECISIONS = ("f16", "bf16")
QUANTISERS = ("qdq", "qop", "dynamic")
MODELS = {}


@dataclass
class Form:
    exporter: str
    free: bool = False
    precision: str = "f32"
    quantiser: str = ""

    @staticmethod
    def parse(text):
        form = Form(text.split(".")[0])
        for word in text.split(".")[1:]:
            if word == "free":
                form.free = True
            elif word in PRECISIONS:
                form.precision = word
            elif word in QUANTISERS:
                form.quantiser = word
            else:
                raise ValueError(f"{text}: {word} is no word of a form")
        return form


@dataclass
class Example:
    """A PyTorch module with all that its export needs.

    `draw(**extents)` makes inputs by name, in the order of `call`'s arguments after the module; `extents` are those of the two
    cases that are compared (forms without free axes draw twice with the first); `free` names the axes that `free` forms leave open.
    """
    module: Any
    draw: Callable
    extents: list = field(default_factory=lambda: [{}, {}])
    free: dict = field(default_factory=dict)
    call: Callable = lambda module, *inputs: module(*inputs)


@dataclass
class Direct:
    """A model that its library wrote as ONNX, with the inputs of the two cases (arrays by name)."""
    model: Any
    cases: list


@dataclass
class Model:
    name: str
    family: str
    architecture: str
    form: Form
    make: Callable  # () -> Example or Direct
    build: tuple    # further options of `mlpack build`


def add(family, architecture, name, make, forms="ts dynamo.free", build=()):
    """Registers `make` once per form."""
    for form in forms.split():
        key = f"{name}.{form}"
        if key in MODELS:
            raise ValueError(f"{key} is registered twice")
        MODELS[key] = Model(key, family, architecture, Form.parse(form), make, tuple(build))


def selected(patterns):
    """Models whose name or family fits one of the patterns of a shell; all of them without patterns."""
    import families  # noqa: F401  registers everything
    return [m for m in MODELS.values() if not patterns or any(fnmatch.fnmatch(m.name, p) or m.family == p for p in patterns)]
