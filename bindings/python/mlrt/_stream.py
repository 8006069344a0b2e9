"""A sound that comes in pieces, through a pipeline with a stream."""
from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy

from . import _core


class Chunk(dict[str, Any]):
    """The answers of one chunk, by name, as `Model.run` gives them. `start`: seconds from the beginning of the sound."""

    start: float

    def __init__(self, answers: dict[str, Any], start: float) -> None:
        super().__init__(answers)
        self.start = start


class Stream:
    """What `Model.stream` gives: push samples in pieces of any length and take what the complete chunks answer, or go over it in a
    loop where it was given an iterable of pieces. What the pipeline carries from chunk to chunk stays within."""

    def __init__(self, stream: _core.Stream, read: Callable[[list[tuple[str, str, Any]]], dict[str, Any]],
                 pieces: Iterable[Any] | None, options: tuple[int, _core.Cancel | None, int, bool]) -> None:
        self._stream = stream
        self._read = read
        self._pieces = pieces
        self._options = options
        self.input, self.rate, self.hop, self.context, self.pads = stream.info()

    def push(self, samples: Any) -> list[Chunk]:
        """Floats [samples] of one channel, between -1 and 1, at `rate` samples per second; gives the chunks that are complete now."""
        array = numpy.asarray(samples)
        if array.ndim != 1 or array.dtype.kind != "f":
            raise TypeError(f"samples are an array of floats with one axis, this is {array.dtype} with {array.ndim}"
                            + ("; whole numbers of 16 bits are divided by 32768" if array.dtype.kind in "iu" else ""))
        self._stream.push(numpy.ascontiguousarray(array, numpy.float32))
        return list(self._complete())

    def finish(self) -> list[Chunk]:
        """No more samples come: the chunk that is not whole, where the pipeline fills it up."""
        self._stream.finish()
        return list(self._complete())

    def reset(self) -> None:
        """As at the beginning, for another sound."""
        self._stream.reset()

    def __iter__(self) -> Iterator[Chunk]:
        if self._pieces is None:
            raise TypeError("a stream without pieces: push(samples) gives what is complete, or stream(NAME=pieces)")
        pieces, self._pieces = self._pieces, None
        for piece in pieces:
            yield from self.push(piece)
        yield from self.finish()

    def _complete(self) -> Iterator[Chunk]:
        while (found := self._stream.next(*self._options)) is not None:
            first, answers = found
            yield Chunk(self._read(answers), first / self.rate)
