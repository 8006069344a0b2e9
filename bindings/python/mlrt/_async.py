"""Runs that go on by themselves, as futures."""
from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import threading
import traceback
from collections.abc import Callable, Generator
from typing import Any

from . import _core


class Run(concurrent.futures.Future[Any]):
    """A run that goes on by itself: a future of its answers, which may be awaited too.

    `cancel` ends the run, which then raises Cancelled; so does the end of a task of asyncio that awaits it."""

    def __init__(self, token: _core.Cancel) -> None:
        super().__init__()
        self._token = token
        self.set_running_or_notify_cancel()

    def cancel(self) -> bool:
        self._token.cancel()
        return False  # it goes on until it sees that

    def __await__(self) -> Generator[Any, None, Any]:
        return asyncio.wrap_future(self).__await__()


_lock = threading.Lock()
_going_on: set[Run] = set()
_deliverer: threading.Thread | None = None
_others: concurrent.futures.ThreadPoolExecutor | None = None


def _deliver() -> None:
    while (done := _core.next_done()) is not None:
        try:
            _end(*done)
        except Exception:  # of what a future calls when it is done; the runs behind this one are delivered all the same
            traceback.print_exc()


def _end(run: Run, answer: Any) -> None:
    with _lock:
        _going_on.discard(run)
    if isinstance(answer, BaseException):
        run.set_exception(answer)
    else:
        run.set_result(answer)


@atexit.register
def _stop() -> None:
    """Nothing of the library may call when the interpreter is gone."""
    with _lock:
        runs = list(_going_on)
    for run in runs:
        run.cancel()
    concurrent.futures.wait(runs)
    _core.close_queue()
    if _deliverer is not None:
        _deliverer.join()


def start(of: Any, program: int, inputs: dict[str, Any], cancel: _core.Cancel | None, limit: int, form: int) -> Run:
    """Arrays, over the library's own threads."""
    global _deliverer
    token = cancel or _core.Cancel()
    run = Run(token)
    with _lock:
        if _deliverer is None:
            _deliverer = threading.Thread(target=_deliver, name="mlrt", daemon=True)
            _deliverer.start()
        _going_on.add(run)
    try:
        _core.run_async(of, program, inputs, token, limit, form, run)
    except BaseException:
        with _lock:
            _going_on.discard(run)
        raise
    return run


def start_call(function: Callable[[_core.Cancel], Any], cancel: _core.Cancel | None) -> Run:
    """What the library has no asynchronous form of, such as pipelines: in a thread of Python."""
    global _others
    token = cancel or _core.Cancel()
    run = Run(token)
    with _lock:
        if _others is None:
            _others = concurrent.futures.ThreadPoolExecutor(thread_name_prefix="mlrt")
        _going_on.add(run)

    def work() -> None:
        try:
            answer = function(token)
        except BaseException as error:  # whatever it is, it is the answer
            answer = error
        _end(run, answer)

    _others.submit(work)
    return run
