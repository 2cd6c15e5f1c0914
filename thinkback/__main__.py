"""The command's entry: interrupts are one line from its first line on, while the rest is being imported too."""

import signal
import sys
from typing import NoReturn


def main() -> NoReturn:
    """Run the command line and exit."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        from thinkback.hiding import hidden

        if (line := hidden()) is not None:
            print(f"error: {line}", file=sys.stderr)
            sys.exit(2)
        from thinkback.app import main as run

        run()
    except KeyboardInterrupt:
        print("error: interrupted", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    main()
