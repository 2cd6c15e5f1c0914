"""`thinkback describe`."""

from __future__ import annotations


def describe(log: str) -> None:
    """Print what a log holds.

    Tables, pools, answers, accuracy, tokens, verifiers, and the caps that policies can use; and what verifiers and
    log-probabilities are worth, and how much narrower intervals are over all orders of a pool.
    """
    from replay.runs.passes.logged_order import order_gain_notes
    from thinkback import console
    from toolkit.log import describe_log, open_log
    from toolkit.log.describe.verifier_quality import quality_of_log, quality_tables

    opened = open_log(log)
    print(describe_log(opened).terminal(console.width(), console.colorful()), end="")
    for which, quality in quality_of_log(opened):
        for table in quality_tables(quality, which):
            console.say()
            console.show(table)
    for gain in order_gain_notes(opened):
        console.say()
        console.say(str(gain))
