"""SIGINT (Ctrl-C), SIGTERM (a scheduler), SIGHUP (a closed terminal): end at once, or save first."""

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

_came: list[int] = []
"""Signals since `raise_on_signals`: what one raises is lost where a library calls us from its own code."""


class Stopped(BaseException):
    """One of the signals came."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.signal = signal.Signals(number)


def raise_on_signals() -> None:
    """Let the signals raise Stopped from now on, wherever the program is."""
    _came.clear()
    for number in _heeded():
        signal.signal(number, _raise)


def raise_if_one_came() -> None:
    """Raise Stopped for a signal that came and was lost."""
    if _came:
        raise Stopped(_came[0])


def _raise(number: int, frame: Any) -> None:
    _came.append(number)
    raise Stopped(number)


def _heeded() -> list[signal.Signals]:
    """Those that the caller has not told us to ignore, as nohup does."""
    return [number for number in NUMBERS if signal.getsignal(number) is not signal.SIG_IGN]


@contextlib.contextmanager
def told_on_signals(tell: Callable[[int], None]) -> Iterator[None]:
    """Call `tell` with the first signal that comes meanwhile; later ones act as they did before."""
    if threading.current_thread() is not threading.main_thread():  # signals are the main thread's
        yield
        return
    before = {number: signal.getsignal(number) for number in _heeded()}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def on_signal(number: int, frame: Any) -> None:
        restore()
        tell(number)

    for number in before:
        signal.signal(number, on_signal)
    if _came:
        tell(_came[0])
    try:
        yield
    finally:
        restore()
