"""SIGINT (Ctrl-C) and SIGTERM (a scheduler that wants the machine): end at once, or save first."""

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

NUMBERS = (signal.SIGINT, signal.SIGTERM)


class Stopped(BaseException):
    """One of the signals came."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.signal = signal.Signals(number)


def raise_on_signals() -> None:
    """Let the signals raise Stopped from now on, wherever the program is."""
    for number in NUMBERS:
        signal.signal(number, _raise)


def _raise(number: int, frame: Any) -> None:
    raise Stopped(number)


@contextlib.contextmanager
def told_on_signals(tell: Callable[[int], None]) -> Iterator[None]:
    """Call `tell` with the first signal that comes meanwhile; later ones act as they did before."""
    if threading.current_thread() is not threading.main_thread():  # signals are the main thread's
        yield
        return
    before = {number: signal.getsignal(number) for number in NUMBERS}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def on_signal(number: int, frame: Any) -> None:
        restore()
        tell(number)

    for number in NUMBERS:
        signal.signal(number, on_signal)
    try:
        yield
    finally:
        restore()
