"""The command's entry: interrupts are one line from its first line on, while the rest is being imported too."""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # importing `typing` takes long enough to be interrupted
if TYPE_CHECKING:
    from sys import UnraisableHookArgs
    from typing import NoReturn


def main() -> NoReturn:
    """Run the command line and exit."""
    try:
        import signal

        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
        sys.unraisablehook = _send_again
        from thinkback.hiding import hidden

        if (line := hidden()) is not None:
            print(f"error: {line}", file=sys.stderr)
            sys.exit(2)
        from thinkback.app import main as run

        run()
    except KeyboardInterrupt:
        print("error: interrupted", file=sys.stderr)
        sys.exit(130)
    finally:
        import signal

        signal.signal(signal.SIGINT, signal.SIG_IGN)  # it ends already: one that is sent again has nothing to end


def _send_again(lost: UnraisableHookArgs) -> None:
    """Python drops what a signal raises within a callback, such as those of imports: then it is sent once more."""
    import os
    import signal
    import threading

    signals = {KeyboardInterrupt: signal.SIGINT, SystemExit: signal.SIGTERM}
    if (sent := signals.get(lost.exc_type)) is None:
        sys.__unraisablehook__(lost)
    else:
        threading.Timer(0.05, os.kill, [os.getpid(), sent]).start()


if __name__ == "__main__":
    main()
