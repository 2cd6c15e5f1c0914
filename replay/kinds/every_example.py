"""The policy that serves every example that has a trace."""

from __future__ import annotations

from replay.kinds.sample import Sample

EVERY = "every example"


def every_example(pool: str | None) -> Sample:
    """The first trace of each example, under the name `EVERY`: what serves every example that has a trace.

    Beside it, a run counts the nine tenths that a policy must serve of all examples asked about, not just of those
    that some other policy can serve.
    """
    return Sample(name=EVERY, pool=pool, max_traces=1, select="first")
