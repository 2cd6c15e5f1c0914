"""The command's entry: interrupts are one line from its first line on, while the rest is being imported too."""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # importing `typing` takes long enough to be interrupted
if TYPE_CHECKING:
    from collections.abc import Callable
    from sys import UnraisableHookArgs
    from types import FrameType
    from typing import NoReturn


class _Interrupted(KeyboardInterrupt):
    """Ctrl-C. Python ends as if killed where a plain KeyboardInterrupt ever left an `exec`, even if it was caught."""


PATIENCE_S = 5.0
"""Seconds after which a signal is sent again: some libraries swallow whatever is raised while they are imported."""


IMPORTS_S, SOON_S = 5.0, 0.05
"""Seconds that an import may take to end once a signal came, and between two looks."""

COLLECT_AFTER = 400_000
"""New objects between two searches for cycles: more than all modules of a command have, which Python's 700 look through
again and again. So much garbage takes less than 100 MB."""


def command() -> NoReturn:
    """Runs the program, and ends it without freeing its memory, which is left to the system.

    Python takes every object apart at its end, which takes longer than many a command. Threads have ended by then, and
    what others want done at the end is done: of such functions the one that was given first runs last. Where one was
    given before this one could be, such as a profiler's, the end is Python's own.
    """
    codes: list[int] = []
    try:
        import atexit

        if not atexit._ncallbacks():
            atexit.register(_exit_at_once, codes)
        main()
    except KeyboardInterrupt:  # before `main` has a handler
        _exit_interrupted()
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            codes.append(end.code or 0)
        raise


def _exit_at_once(codes: list[int]) -> None:
    """Ends the process at once with the first of `codes`, if there is one and all output is written."""
    import os

    try:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
    except (OSError, ValueError, AttributeError):  # Python's own end has words for that
        return
    if codes:
        os._exit(codes[0])


def main() -> NoReturn:
    """Run the command line and exit."""
    try:
        import signal

        signal.signal(signal.SIGTERM, _raising_handler(SystemExit(143)))
        signal.signal(signal.SIGINT, _raising_handler(_Interrupted()))
        sys.unraisablehook = _send_again
        from thinkback.shadowing import shadowing_line

        if (line := shadowing_line()) is not None:
            print(f"error: {line}", file=sys.stderr)
            sys.exit(2)
        import gc

        gc.set_threshold(COLLECT_AFTER)
        from thinkback.app import main as run

        run()
    except KeyboardInterrupt:
        _exit_interrupted()
    except SystemExit:
        raise
    except BaseException:  # a panic of a library is no Exception
        if not _came:
            raise
        if isinstance(_came[0], SystemExit):  # some libraries make an error of their own of it
            raise _came[0] from None
        _exit_interrupted()
    finally:
        import signal

        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM):  # it ends already: nothing more to end
            signal.signal(number, signal.SIG_IGN)


_came: list[BaseException] = []
"""What was raised where a signal came."""


def _exit_interrupted() -> NoReturn:
    print("error: interrupted", file=sys.stderr)
    sys.exit(130)


def _raising_handler(error: BaseException) -> Callable[[int, FrameType | None], None]:
    """Makes a signal handler that raises `error`, again as long as the command goes on; within an import it waits."""
    waited = 0.0

    def handle(number: int, frame: FrameType | None) -> None:
        nonlocal waited
        if isinstance(sys.exc_info()[1], (KeyboardInterrupt, SystemExit)):
            return  # it ends already
        if waited < IMPORTS_S and (_is_importing(frame) or _called_by_rust(frame)):
            waited += SOON_S
            _send_later(number, SOON_S)
            return
        _send_later(number, PATIENCE_S)
        _came.append(error)
        raise error

    return handle


def _is_importing(frame: FrameType | None) -> bool:
    """Whether a module is being imported at this frame, since some imports fail badly when a signal raises an error."""
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


def _called_by_rust(frame: FrameType | None) -> bool:
    """Whether polars' Rust code may be waiting for Python at this frame: it panics when an error is raised there."""
    return frame is not None and "/polars/io/" in frame.f_code.co_filename.replace("\\", "/")


def _send_again(lost: UnraisableHookArgs) -> None:
    """Sends a signal once more after Python dropped its error inside a callback, such as those of imports."""
    import signal

    signals = {_Interrupted: signal.SIGINT, SystemExit: signal.SIGTERM}
    if (sent := signals.get(lost.exc_type)) is None:
        sys.__unraisablehook__(lost)
    else:
        _send_later(sent, SOON_S)


def _send_later(number: int, after_s: float) -> None:
    """Sends a signal after some seconds by the system's timer, as the module for threads may be being imported."""
    import signal

    signal.signal(signal.SIGALRM, lambda *_: signal.raise_signal(number))
    signal.setitimer(signal.ITIMER_REAL, after_s)


if __name__ == "__main__":
    command()
