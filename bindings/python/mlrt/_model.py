"""Models, sessions and answers."""
from __future__ import annotations

import io
import math
import operator
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from numbers import Number
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Union

from . import _core
from ._arrays import numpy_type
from ._errors import InputMismatch, NoVariant, Unsupported, UsageError

if TYPE_CHECKING:
    from ._async import Run
    from ._stream import Stream

PathOrBytes = Union[str, "os.PathLike[str]", bytes, bytearray, memoryview]
_VERIFY = {"auto": 0, "full": 1, "copy": 2, "lazy": 3}
_NO_LIMIT = 2**64 - 1
_UNBOUNDED = 2**62


@dataclass(frozen=True, slots=True)
class Scored:
    """One class of an answer; unpacks to label and score. The label is None where the file has no labels."""
    label: str | None
    score: float
    index: int

    def __iter__(self) -> Iterator[Any]:
        return iter((self.label, self.score))


class Line(NamedTuple):
    """One line of text of an answer."""
    text: str
    score: float


class Box(NamedTuple):
    """One detection of an answer: its class, and its corners in pixels. The label is None where the file has no labels."""
    label: str | None
    score: float
    class_index: int
    x1: float
    y1: float
    x2: float
    y2: float


class Dim(NamedTuple):
    """An extent that the input decides: its name or expression, and the least and largest value. No `min`: it follows
    from others; no `max`: it has no bound."""
    name: str
    min: int | None
    max: int | None


class Port:
    """An input or output of a program: name, element type, shape. `shape` holds numbers, and a Dim for free extents."""

    __slots__ = ("name", "dtype", "shape", "list_depth")

    def __init__(self, name: str, dtype: str, dims: list[tuple[int, str, int, int]], list_depth: int) -> None:
        self.name = name
        self.dtype = dtype
        self.list_depth = list_depth
        self.shape: tuple[int | Dim, ...] = tuple(
            extent if extent >= 0 else Dim(text, low if low >= 0 else None, high if 0 <= high < _UNBOUNDED else None)
            for extent, text, low, high in dims)

    @property
    def numpy_dtype(self) -> Any:
        """What NumPy calls the element type; object for strings."""
        return numpy_type(self.dtype)

    def __repr__(self) -> str:
        shape = ",".join(str(d) if isinstance(d, int) else d.name for d in self.shape)
        ranges = {d.name: f"{d.name} in {d.min}.." + ("" if d.max is None else str(d.max)) for d in self.shape
                  if isinstance(d, Dim) and d.min is not None}
        text = "list of " * self.list_depth + f"{self.dtype}[{shape}]"
        return ", ".join([text, *ranges.values()])


class PipelineInput(NamedTuple):
    """What a pipeline takes: a file of one of these media types, or an array. `rate`: samples per second of a sound, else 0."""
    name: str
    accept: tuple[str, ...]
    is_array: bool
    rate: int = 0


class PipelineOutput(NamedTuple):
    """What a pipeline answers; kind is "classes", "text", "boxes", "image", "sound" or "array"."""
    name: str
    kind: str


class Selftest(NamedTuple):
    """Golden vectors that passed, and the largest differences, absolute and relative to the largest value."""
    vectors: int
    max_abs: float
    max_rel: float


def _top(top: Any) -> int:
    """A number of classes, and 0 for what the pipeline says."""
    try:
        count = operator.index(top)
    except TypeError:
        raise TypeError(f"top is {top!r}, expected a whole number") from None
    if not 0 <= count <= 1_000_000:
        raise ValueError(f"top is {count}, expected 1 to 1000000, or 0 for what the pipeline says")
    return count


def _is_positive(number: Any) -> bool:
    return not isinstance(number, (str, bytes)) and bool(number > 0)


def _nanoseconds(seconds: float | None) -> int:
    if seconds is None:
        return 0
    if not _is_positive(seconds):
        raise ValueError(f"time_limit is {seconds!r}, expected seconds above 0, inf for none, or None")
    return _NO_LIMIT if math.isinf(seconds) else max(1, min(int(seconds * 1e9), _NO_LIMIT - 1))


def _bytes_limit(limit: float | None) -> int:
    if limit is None:
        return 0
    if not _is_positive(limit):
        raise ValueError(f"memory_limit is {limit!r}, expected bytes above 0, inf for none, or None")
    return _NO_LIMIT if math.isinf(limit) else int(limit)


def _folder(variable: str, otherwise: str) -> str:
    """A folder of the XDG Base Directory Specification, as the tools choose it; "" if there is no home."""
    base = os.environ.get(variable, "")
    if not base.startswith("/"):
        home = os.path.expanduser("~")
        if not home.startswith("/"):
            return ""
        base = os.path.join(home, otherwise)
    return os.path.join(base, "mlc")


def _wishes(require: str | None, variant: str | None, threads: int, time_limit: float | None,
            memory_limit: float | None, profile: bool = False, pool: _core.ThreadPool | None = None) -> _core.SessionWishes:
    if threads < 0:
        raise ValueError(f"threads is {threads}, expected a number of threads, or 0 for all")
    w = _core.SessionWishes()
    w.require = require or ""
    w.variant = variant or ""
    w.threads = threads
    w.time_limit_ns = _nanoseconds(time_limit)
    w.memory_limit = _bytes_limit(memory_limit)
    w.profile = profile
    w.pool = pool
    return w


def _form(tensors: bool | str) -> int:
    """What outputs are, for the extension."""
    if isinstance(tensors, str):
        if tensors != "device":
            raise ValueError(f"tensors is '{tensors}', expected True, False or 'device'")
        return 2
    return 1 if tensors else 0


def _on_host(tensors: bool | str) -> bool:
    if _form(tensors) == 2:
        raise UsageError("what a pipeline answers does not stay on a device", help="raw=True runs the program without it")
    return bool(tensors)


def _probe_program(devices: str | None, given: str | os.PathLike[str] | None) -> str | None:
    """The program that asks drivers for devices: the one that is said, or mlrun where devices are wanted and it is installed."""
    if given is not None:
        return os.fspath(given)
    if devices is None or devices == "cpu":
        return None
    import shutil  # takes longer to load than a model

    found = shutil.which("mlrun")
    if found is None:
        raise UsageError("mlrun, which asks drivers for devices, is not in PATH", help="probe_program=..., its path")
    return found


def _is_file(value: Any) -> bool:
    return isinstance(value, (str, bytes, bytearray, os.PathLike))


def _as_one_file(name: Any, value: Any) -> Any:
    """What an input that takes a file is given, if it may be one."""
    if value is None or hasattr(value, "read"):
        found = "None" if value is None else "an open file: its path, or what read() gives, is meant"
    elif isinstance(value, (list, tuple)) and value and all(_is_file(item) for item in value):
        found = f"a list of {len(value)}: answer them one by one, [model(file) for file in files]"
    else:
        return value
    raise TypeError(f"{'the input' if name is None else repr(name)} takes a path, the bytes of a file, or an array, found {found}")


def _file_bytes(value: Any) -> Any:
    """The bytes of a file that is given by its path; bytes and arrays as they are."""
    if isinstance(value, bytearray):
        return bytes(value)
    if isinstance(value, (str, os.PathLike)):
        with io.open(value, "rb") as file:
            return file.read()
    return value


def _file_ends(value: Any, first: int, last: int) -> Any:
    """As _file_bytes; of a file that has more bytes than its ends those, with the place and the number of the others."""
    if not isinstance(value, (str, os.PathLike)):
        return _file_bytes(value)
    with io.open(value, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size <= first + last or not file.seekable():
            return file.read()
        head = file.read(first)
        file.seek(size - last)
        return head + file.read(last), first, size - last - first


def _samples(name: Any, pair: tuple[Any, ...], rate: int) -> Any:
    """The samples of (samples, rate), if that is the rate that the pipeline takes: as of a file, no other one is resampled."""
    what = "the input" if name is None else repr(name)
    if len(pair) != 2 or _is_file(pair[0]) or isinstance(pair[0], Number) or not isinstance(pair[1], Number):
        found = " and ".join(type(part).__name__ for part in pair[:2]) if len(pair) == 2 else f"{len(pair)} of them"
        raise TypeError(f"{what} takes a file, samples, or (samples, rate), found {found} in a tuple")
    samples, found_rate = pair
    if found_rate != rate:
        raise InputMismatch(f"audio has {found_rate} samples per second, the pipeline takes {rate}", number="E4001",
                            help=f"resample it to {rate}: nothing does so by itself, for a file neither")
    return samples


def _single(rows: list[Any]) -> Any:
    return rows[0] if len(rows) == 1 else rows


def _answers(found: list[tuple[str, str, Any]]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for name, kind, value in found:
        if kind == "classes":
            out[name] = _single([[Scored(*c) for c in row] for row in value])
        elif kind == "text":
            out[name] = _single([Line(*line) for line in value])
        elif kind == "boxes":
            out[name] = [Box(*box) for box in value]
        else:
            out[name] = value
    return out


class _Runner:
    """What models and sessions have in common: the choice between a program and the pipeline around it."""

    _runs: Any  # a session or a pool of them

    def _of(self) -> Model:
        raise NotImplementedError

    def run(self, inputs: Any = None, /, *, program: str | None = None,
            pipeline: str | None = None, raw: bool | None = None, top: int = 0, cancel: _core.Cancel | None = None,
            time_limit: float | None = None, tensors: bool | str = False, **arrays: Any) -> dict[str, Any]:
        """Runs once and gives the outputs by name.

        Inputs of the pipeline of the container, by name, go through it, and the answers are lists of Scored, Lines,
        lists of Box, the bytes of a picture's or a sound's file, and arrays. It takes files (a path, or the bytes of a file), and pictures that are decoded already, u8[height,width,channels].
        In place of the file of a sound it takes the samples, f32, f64 or i16 [samples] or [samples,channels], at the rate of the pipeline (PipelineInput.rate), or a
        pair (samples, rate), whose rate is compared with it.
        Of a file of any kind ("application/octet-stream") only the bytes that the pipeline needs are read. Where the pipeline takes texts a string is a text and a list of strings are several; pathlib.Path is a file of one.
        Arrays by the names of the program's inputs feed the program and give arrays. `raw` decides it by hand. Inputs whose names are no words of Python, or options of this function, come as a dict in
        front; a single file in front is the only input.

        program, pipeline: by name, where there are several
        top:         this many classes, in place of what the pipeline says
        cancel:      a Cancel, by which another thread can end the run
        time_limit:  seconds, in place of the session's
        tensors:     give mlrt.Tensor (for DLPack of any type) in place of NumPy arrays; "device": mlrt.DeviceTensor, where
                     the session runs, which the next run takes without a copy"""
        chosen, index, given = self._meant(inputs, arrays, program, pipeline, raw)
        limit = 0 if time_limit is None else _nanoseconds(time_limit)
        if chosen is None:
            found: dict[str, Any] = self._runs.run(index, given, cancel, limit, _form(tensors))
            return found
        return _answers(self._runs.run_pipeline(chosen, given, _top(top), cancel, limit, _on_host(tensors)))

    def run_async(self, inputs: Any = None, /, *, program: str | None = None,
                  pipeline: str | None = None, raw: bool | None = None, top: int = 0, cancel: _core.Cancel | None = None,
                  time_limit: float | None = None, tensors: bool | str = False, **arrays: Any) -> Run:
        """As `run`, but it goes on by itself: gives a Run, which is a concurrent.futures.Future and may be awaited.

        Inputs that are borrowed, such as NumPy arrays, must not change until the run is over."""
        from . import _async  # takes longer to load than this module and the library together
        chosen, index, given = self._meant(inputs, arrays, program, pipeline, raw)
        limit = 0 if time_limit is None else _nanoseconds(time_limit)
        runs = self._runs
        if chosen is None:
            return _async.start(runs, index, given, cancel, limit, _form(tensors))
        pipe, on_host, top = chosen, _on_host(tensors), _top(top)
        return _async.start_call(lambda token: _answers(runs.run_pipeline(pipe, given, top, token, limit, on_host)), cancel)

    def _meant(self, inputs: Any, arrays: dict[str, Any], program: str | None, pipeline: str | None,
               raw: bool | None) -> tuple[_core.Pipeline | None, int, dict[Any, Any]]:
        """The pipeline or, without one, the program that is to run, and what it is given."""
        if inputs is None:
            given: dict[Any, Any] = arrays
        elif isinstance(inputs, Mapping):
            given = {**inputs, **arrays}
        else:
            given = {None: inputs, **arrays}
        model = self._of()
        chosen = model._pipeline_for(given, program, pipeline, raw)
        if chosen is None:
            index = model._default if program is None else model._program(program)
            if None in given:
                raise UsageError("a single file goes through a pipeline, and this run has none",
                                 help="run(NAME=array), or mlpack build --pipeline")
            for value in given.values():
                if isinstance(value, (str, os.PathLike)):
                    given = model._with_files(index, given)
                    break
            return None, index, given
        return chosen, 0, self._given_to(chosen, given)

    @staticmethod
    def _given_to(chosen: _core.Pipeline, given: dict[Any, Any]) -> dict[Any, Any]:
        """What a pipeline is given: texts as they are, the bytes of files that paths name."""
        takes: dict[Any, tuple[tuple[str, ...], tuple[int, int], int]] = {name: (types, ends, rate) for name, _, types, ends, rate in chosen.inputs()}
        takes[None] = next(iter(takes.values()))  # the only one

        def of(name: Any, value: Any) -> Any:
            types, ends, rate = takes.get(name, ((), (0, 0), 0))
            if rate and isinstance(value, tuple):
                return _samples(name, value, rate)
            if isinstance(value, str) and types == ("text/plain",):
                return value
            if "text/plain" not in types:
                value = _as_one_file(name, value)
            return _file_ends(value, *ends) if types == ("application/octet-stream",) else _file_bytes(value)
        return {name: of(name, value) for name, value in given.items()}

    def stream(self, pieces: Any = None, /, *, pipeline: str | None = None, top: int = 0, cancel: _core.Cancel | None = None,
               time_limit: float | None = None, tensors: bool = False, **named: Any) -> Stream:
        """A sound in pieces, through a pipeline with a stream: `for chunk in model.stream(speech=pieces)`, where `pieces` gives
        arrays of any length (or is one), or `stream = model.stream()` with `stream.push(samples)` and `stream.finish()`. Inputs
        beside the sound are given by name, once for all chunks.

        The options are those of `run`, for each chunk. A model takes a session of its own for each stream."""
        from ._stream import Stream as Made  # takes longer to load than a model

        model, session = self._of(), self._own_session()
        chosen = model._pipeline(pipeline or "")
        if chosen is None:
            raise UsageError("this container has no pipeline", help="mlpack build --pipeline puts one in")
        made = _core.Stream(session._runs, chosen)
        known = made.info()[0]
        if pieces is not None:
            named = {known: pieces, **named}
        given = named.pop(known, None)
        takes = [name for name, *_ in chosen.inputs()]
        for name in named:
            if name not in takes:
                raise UsageError(f"'{name}' is not what the stream takes", facts=(f"it cuts '{known}'",))
        if len(takes) > 1:
            made.give(self._given_to(chosen, named))
        given = [given] if hasattr(given, "ndim") else given
        limit = 0 if time_limit is None else _nanoseconds(time_limit)
        return Made(made, _answers, given, (_top(top), cancel, limit, _on_host(tensors)))

    def _own_session(self) -> Session:
        raise NotImplementedError

    def __call__(self, inputs: Any, /, **options: Any) -> Any:
        """The answer to one file, or picture: that of the pipeline if it has one answer, else all of them by name."""
        answers = self.run(inputs, **options)
        return next(iter(answers.values())) if len(answers) == 1 else answers


class Session(_Runner):
    """One variant, loaded, with its memory and its state; used by one thread at a time."""

    def __init__(self, model: Model, session: _core.Session) -> None:
        self._model = model
        self._runs = session

    def _of(self) -> Model:
        return self._model

    def _own_session(self) -> Session:
        return self

    @property
    def variant(self) -> str:
        return str(self._runs.info()["variant"])

    def info(self) -> dict[str, Any]:
        """variant, device ("gpu0"; empty: the processor), is_portable, threads, arena_bytes, note (why better variants were
        not taken, what was done on the processor since a device could not, and what was copied)."""
        return dict(self._runs.info())

    def program_info(self, program: str | None = None) -> dict[str, Any]:
        """What `info` says, of one program (None: the one of a bare run): programs differ where devices were given by program.
        UsageError for a name that the container lacks, Unsupported where the library is too old to tell."""
        return dict(self._runs.program_info(self._model._default if program is None else self._model._program(program)))

    def selftest(self, vector: str | None = None) -> Selftest:
        """Runs the golden vector of this name, or all of them; raises SelftestFailed if one differs too much."""
        return Selftest(**self._runs.selftest(vector))

    def profile(self, program: str = "") -> list[tuple[str, int, int]]:
        """(instruction, nanoseconds, runs), of sessions that were made with `profile`."""
        return list(self._runs.profile(program))

    def state_reset(self) -> None:
        """What the model keeps between runs, back to its first values."""
        self._runs.state_reset()

    def state_save(self) -> bytes:
        return bytes(self._runs.state_save())

    def state_restore(self, state: bytes) -> None:
        self._runs.state_restore(bytes(state))

    def __repr__(self) -> str:
        return f"<mlrt.Session of {self._model.file}: {self.variant}>"


class Model(_Runner):
    """An open container. May be used by any number of threads: `run` takes a session that is idle, or a new one.

    A model that keeps state between runs wants a session of its own for each stream: `session()`."""

    def __init__(self, handle: _core.OpenModel, wishes: _core.SessionWishes) -> None:
        self._handle = handle
        self._wishes = wishes
        self._runs = _core.Pool(handle, wishes)
        programs = handle.programs()
        self.programs: tuple[str, ...] = tuple(name for name, _ in programs)
        # What a bare run means, here as in the tools: main, else the default program.
        self._default = self.programs.index("main") if "main" in self.programs else next(
            (i for i, (_, is_default) in enumerate(programs) if is_default), 0)
        self._pipelines: dict[str, _core.Pipeline | None] = {}
        self._of_pipeline: set[str] | None = None  # names of its inputs that arrays may be given for

    def _of(self) -> Model:
        return self

    def _own_session(self) -> Session:
        return self.session()

    # What the file says.

    @property
    def inputs(self) -> dict[str, Port]:
        """Of the program that a bare run feeds, by name."""
        return self.ports(is_output=False)

    @property
    def outputs(self) -> dict[str, Port]:
        return self.ports(is_output=True)

    def ports(self, program: str | None = None, *, is_output: bool) -> dict[str, Port]:
        index = self._default if program is None else self._program(program)
        return {p[0]: Port(*p) for p in self._handle.ports(index, is_output)}

    @property
    def pipeline_inputs(self) -> dict[str, PipelineInput] | None:
        """What the pipeline of the default program takes; None if there is none."""
        pipeline = self._pipeline("")
        if pipeline is None:
            return None
        return {name: PipelineInput(name, types, is_array, rate) for name, is_array, types, _, rate in pipeline.inputs()}

    @property
    def pipeline_outputs(self) -> dict[str, PipelineOutput] | None:
        pipeline = self._pipeline("")
        return None if pipeline is None else {name: PipelineOutput(name, kind) for name, kind in pipeline.outputs()}

    @property
    def file(self) -> str:
        return str(self._handle.info()["file"])

    def inspect(self) -> dict[str, Any]:
        """Identity, trust, programs with their ports, assets, notes."""
        info = dict(self._handle.info())
        info["programs"] = [
            {"name": name, "default": is_default, "inputs": self.ports(name, is_output=False),
             "outputs": self.ports(name, is_output=True)} for name, is_default in self._handle.programs()]
        return info

    def explain(self) -> dict[str, Any]:
        """`chosen`, the variant that runs here, or None; `variants`: for each whether it fits and every reason why not; `programs`:
        for each the variant that a session would try first and its device ("gpu0"; empty: the processor), both None where
        none fits, or the library is too old to tell."""
        variants = list(self._handle.variants())
        try:
            chosen = variants[self._handle.choose(self._wishes.variant, self._wishes.require)]["name"]
        except NoVariant:
            chosen = None
        return {"chosen": chosen, "variants": variants, "programs": [self._chosen_for(index) for index in range(len(self.programs))]}

    def _chosen_for(self, index: int) -> dict[str, Any]:
        variant, device = None, None
        try:
            variant, device = self._handle.choose_for(index, self._wishes.variant, self._wishes.require)
        except (NoVariant, Unsupported):
            pass
        return {"name": self.programs[index], "variant": variant, "device": device}

    def asset(self, name: str) -> bytes:
        """A file inside of the container, such as its labels."""
        return bytes(self._handle.asset(name))

    def golden_inputs(self, program: str | None = None) -> dict[str, Any]:
        """The inputs of the program's first golden vector: arrays that are legal."""
        return dict(self._handle.golden_inputs(self._default if program is None else self._program(program)))

    # Sessions.

    def session(self, *, threads: int | None = None, variant: str | None = None, require: str | None = None,
                time_limit: float | None = None, memory_limit: float | None = None, profile: bool = False,
                pool: _core.ThreadPool | None = None) -> Session:
        """A session of one's own. What is not given is as for `open`."""
        own = self._wishes
        wishes = _wishes(require or own.require, variant or own.variant, own.threads if threads is None else threads,
                         time_limit, memory_limit, profile, pool or own.pool)
        if time_limit is None:
            wishes.time_limit_ns = own.time_limit_ns
        if memory_limit is None:
            wishes.memory_limit = own.memory_limit
        return Session(self, _core.Session.create(self._handle, wishes))

    def selftest(self, vector: str | None = None) -> Selftest:
        """Golden vectors on the variant that runs here."""
        return self.session().selftest(vector)

    def close(self) -> None:
        """Gives the memory of idle sessions back; the next run makes a new one."""
        self._runs = _core.Pool(self._handle, self._wishes)

    def __enter__(self) -> Model:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        inputs, outputs = (", ".join(f"{name}: {port!r}" for name, port in ports.items())
                           for ports in (self.inputs, self.outputs))
        return f"<mlrt.Model {self.file}: {inputs} -> {outputs}>"

    # Which program, which pipeline.

    def _program(self, name: str) -> int:
        if name not in self.programs:
            raise UsageError(f"no program '{name}' in this container", facts=("it has " + ", ".join(self.programs),))
        return self.programs.index(name)

    def _with_files(self, program: int, given: dict[Any, Any]) -> dict[Any, Any]:
        """Inputs of a bare program with the bytes of the files that paths name; a str may be one where no strings go."""
        takes_texts = {p[0] for p in self._handle.ports(program, False) if p[1] == "str"}
        return {name: _file_bytes(value) if isinstance(value, os.PathLike) or name not in takes_texts else value
                for name, value in given.items()}

    def _pipeline(self, name: str) -> _core.Pipeline | None:
        if name not in self._pipelines:
            self._pipelines[name] = _core.Pipeline.open(self._handle, name)
        return self._pipelines[name]

    def _pipeline_for(self, given: dict[Any, Any], program: str | None, pipeline: str | None,
                      raw: bool | None) -> _core.Pipeline | None:
        if raw or (program is not None and pipeline is None):
            return None
        if pipeline is not None:
            return self._pipeline(pipeline)
        if raw is None and self._are_for_program(given):
            return None
        found = self._pipeline("")
        if found is None and raw is False:
            raise UsageError("this container has no pipeline", help="mlpack build --pipeline puts one in")
        return found

    def _are_for_program(self, given: dict[Any, Any]) -> bool:
        """Whether these are arrays that are not meant for the pipeline: not by their names."""
        if self._of_pipeline is None:
            has = any(a["name"] == "pipeline.json" for a in self._handle.info()["assets"])
            pipeline = self._pipeline("") if has else None
            names = pipeline.inputs() if pipeline else []
            # An input of both is the pipeline's if that takes an array.
            self._of_pipeline = {n for n, is_array, *_ in names if is_array or n not in self.inputs}
        for name, value in given.items():
            if name is None or name in self._of_pipeline or _is_file(value):
                return False
        return True


def _pem(key: Any) -> str | None:
    """The text of a key that is given as such, not by its path."""
    if isinstance(key, (bytes, bytearray)):
        return bytes(key).decode("ascii", "replace")
    return key if isinstance(key, str) and "-----BEGIN" in key else None


def open(source: PathOrBytes, *, allow_unsigned: bool = False, trust_keys: list[Any] | tuple[Any, ...] = (),
         policy: str | os.PathLike[str] | None = None, require: str | None = None, variant: str | None = None,
         threads: int = 0, verify: str = "auto", time_limit: float | None = None, memory_limit: float | None = None,
         pool: _core.ThreadPool | None = None, allow_older: bool = False, untrusted_services: list[str] | tuple[str, ...] = (),
         config_folder: str | os.PathLike[str] | None = None, state_folder: str | os.PathLike[str] | None = None,
         devices: str | None = None, probe_program: str | os.PathLike[str] | None = None) -> Model:
    """Opens a container: a path, or its bytes, which are not copied.

    allow_unsigned: run native code of a file that nobody trusted has signed; else its portable form runs
    trust_keys:   public keys to trust beside those of this machine: paths of PEM files, or PEM as bytes
    policy:       a trust.json in place of the machine's
    require:      "native", or a variant, target or family, else NoVariant; variant: exactly this one
    threads:      that work on a run; 0: all of the pool
    pool:         a ThreadPool that several models share; None: that of the process, with a thread for each core
    verify:       "auto", "lazy", "full", "copy": when weights are compared with their digests
    time_limit:   seconds for a run, memory_limit: bytes for a session; inf for none. Files that nobody trusts have
                  1.5 s and 192 MiB unless it is said
    devices:      "auto", "gpu" or names, "gpu0,cpu", as for mlrun --devices; by program "detect=gpu0;read=cpu;auto"; None: the
                  processor alone. probe_program: mlrun, which asks drivers in a process of its own; None: the one in PATH
    config_folder, state_folder: of keys, and of versions seen, in place of those that the tools use; "" for none"""
    if verify not in _VERIFY:
        raise ValueError(f"verify is '{verify}', expected one of {', '.join(_VERIFY)}")
    path = None if isinstance(source, (bytes, bytearray, memoryview)) else os.fspath(source)
    if path == "":
        raise ValueError("the path is empty")
    options = {
        "path": path, "memory": source if path is None else None,
        "verify": _VERIFY[verify], "allow_unsigned": allow_unsigned, "allow_older": allow_older,
        "trust_keys": [os.fspath(key) for key in trust_keys if _pem(key) is None],
        "trust_key_data": [pem for key in trust_keys if (pem := _pem(key)) is not None],
        "policy": None if policy is None else os.fspath(policy), "untrusted_services": list(untrusted_services),
        "devices": devices, "probe_program": _probe_program(devices, probe_program),
        "config_folder": _folder("XDG_CONFIG_HOME", ".config") if config_folder is None else os.fspath(config_folder),
        "state_folder": _folder("XDG_STATE_HOME", ".local/state") if state_folder is None else os.fspath(state_folder),
    }
    wishes = _wishes(require, variant, threads, time_limit, memory_limit, pool=pool)
    handle = _core.open(options)
    if require or variant:
        handle.choose(wishes.variant, wishes.require)  # NoVariant now, not at the first run
    return Model(handle, wishes)
