# %% [markdown]
# # Fact checking under a verifier budget
#
# A model has written several attempts at checking each claim. A verifier may read them and say which to believe, but
# every reading costs a call. **How many verifier calls are worth making, and on which attempts?**
#
# The log in `data/` is real: a small model checked claims about tables, whose answer is True, False or Conflicting, and
# a classifier trained on other claims scored every attempt.

# %%
import matplotlib.pyplot as plt
from IPython.display import Markdown

import thinkback as tb

LOG = "../data/log"
CLAIMS = "split = 'test' and dataset = 'numeric_claims'"
MOST = 16
log = tb.open_log(LOG)


def points(row):
    """A paired difference as text, with its interval."""
    numbers = [f"{100 * row[name]:+.1f}" for name in ("difference", "low", "high")]
    return "{} points [{}, {}]".format(*numbers).replace("-", "−")


# %% [markdown]
# ## The replay
#
# A vote asks nobody. The best of all attempts by the verifier asks it about each one. Between them are rules that stop:
# after a number of calls, or as soon as the best answer leads the next one by a margin of its score.

# %%
shared = {"pool": "votes", "max_traces": MOST}
vote = tb.Sample(name="vote", select="majority", **shared)
best = tb.Sample(name="best of all", verifier="trained", **shared)
weighted = tb.Sample(name="weighted vote", verifier="trained", select="weighted", **shared)
calls = [
    tb.Sample(name=f"{count} calls", verifier="trained", select="weighted", stop=tb.Budget(count), **shared)
    for count in (2, 4, 8)
]
margins = [
    tb.Sample(name=f"margin {margin}", verifier="trained", select="weighted", stop=tb.Margin(margin), **shared)
    for margin in (0.05, 0.1, 0.2, 0.4)
]
result = tb.run(log, [vote, best, weighted, *calls, *margins], baseline="vote", where=CLAIMS)
result.table(columns=["policy", "accuracy", "verified", "total_tokens", "difference", "p_adjusted", "remark"])

# %% [markdown]
# Accuracy against the number of verifier calls, with intervals:

# %%
result.frontier(cost="verifications")

# %% [markdown]
# ## In which order?
#
# With a fixed number of calls, does it matter which attempts are read first? The order in which they were generated is
# the plain choice; a random order is the control; a surrogate guesses scores from those that it has seen and reads the
# most promising attempt next.

# %%
orders = tb.budgets(log, verifier="trained", pool="votes", max_traces=MOST, where=CLAIMS, resamples=2000)
fig, axes = plt.subplots(figsize=(5.5, 3.2), layout="constrained")
for name in ("generation", "random, expected", "surrogate"):
    line = orders.by_k.filter(metric="accuracy", order=name)
    axes.plot(line["k"], 100 * line["estimate"], label=name)
    axes.fill_between(line["k"], 100 * line["low"], 100 * line["high"], alpha=0.12)
axes.set(xlabel="verifier calls a claim", ylabel="accuracy, %")
axes.legend(frameon=False)
plt.show()

# %%
pairs = orders.pairs.filter(metric="accuracy", order="generation", against="surrogate")
sure = pairs.filter((pairs["low"] > 0) | (pairs["high"] < 0))
least, *_, most = pairs.sort("difference", "k").to_dicts()
Markdown(
    f"Generation order minus surrogate order: from {points(least)} at {least['k']} calls to {points(most)} at "
    f"{most['k']}. Of {pairs.height} intervals {sure.height} leave out zero. Each is of its own; the more of them one "
    "looks at, the more leave out zero by chance."
)

# %% [markdown]
# ## What was found

# %%
against = {row["policy"]: row for row in result.comparisons.filter(baseline="vote", metric="accuracy").to_dicts()}
paid = {row["policy"]: row["estimate"] for row in result.summary.filter(metric="verifications").to_dicts()}
cheap = max(margins, key=lambda policy: against[policy.name]["difference"]).name
Markdown(
    f"- Asking about every attempt and weighing the votes: {points(against['weighted vote'])} against the vote, for "
    f"{paid['weighted vote']:.1f} calls a claim.\n"
    f"- Believing the best score alone: {points(against['best of all'])} for as many calls.\n"
    f"- The best rule that stops early, `{cheap}`: {points(against[cheap])} for {paid[cheap]:.1f} calls. It was chosen "
    f"on these claims, so the number flatters it."
)

# %% [markdown]
# A choice should not be made where it is reported. Here the claims of the split `dev` choose:

# %%
tuned = tb.tune(
    log,
    [vote, weighted, *calls, *margins],
    goal="min verifications subject to accuracy >= baseline - 0.01",
    baseline="weighted vote",
    on="split = 'dev' and dataset = 'numeric_claims'",
    report=CLAIMS,
)
tuned

# %% [markdown]
# ## What would change it
#
# A better verifier. How good is this one? An oracle that always knew which attempt is right would reach much more from
# the same attempts; the gap between it and the best rule is what a verifier could still win.

# %%
oracle = tb.Oracle(name="any right", of=["votes"])
room = tb.run(log, [vote, weighted, oracle], baseline="vote", where=CLAIMS).headroom()
room

# %%
[share] = room.frame.filter(policy="weighted vote", measure="share_of_headroom").to_dicts()
estimate, low, high = (f"{100 * share[name]:.0f}".replace("-", "−") for name in ("estimate", "low", "high"))
Markdown(
    f"The weighted vote turns {estimate} % [{low}, {high}] of the room between the vote and the oracle "
    "into right answers. A verifier that ranks attempts better would move every line of this page, and a cheaper one "
    "would move where stopping pays. More claims would narrow the intervals, and little else."
)

# %% [markdown]
# The [study of fact checking](../docs/factcheck.md) asks all of this, and more, by one command. The next notebook asks
# whether to [think again, or think longer](think_again.ipynb).
