"""`thinkback describe`."""

from __future__ import annotations

from thinkback import options


def describe(log: options.Log) -> None:
    """Print what a log holds.

    Tables, pools, answers, accuracy, tokens, verifiers, and the caps that policies can use.
    """
    from thinkback import console
    from toolkit.log import describe_log, open_log

    description = describe_log(open_log(log))
    print(description.terminal(console.width(), console.colorful()), end="")
