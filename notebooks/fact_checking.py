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


def differences(of, baseline):
    """Differences of accuracy to a baseline as the table has them: their limits hold for all policies at once."""
    limits = of.ranks.filter(metric="accuracy").select("policy", low="baseline_low", high="baseline_high")
    rows = of.comparisons.filter(baseline=baseline, metric="accuracy").select("policy", "difference")
    return {row["policy"]: row for row in rows.join(limits, on="policy").to_dicts()}


def points(row):
    """A paired difference as text, with its interval."""
    rounded = [round(100 * row[name], 1) for name in ("difference", "low", "high")]
    numbers = [f"{number:+.1f}" if number else "0.0" for number in rounded]
    return "{} points [{}, {}]".format(*numbers).replace("-", "−")


# %% [markdown]
# ## The replay
#
# A vote asks nobody. The best of all asks the verifier about every attempt that has an answer and believes the best
# score; the weighted vote asks about as many and adds the scores up. The others stop: after a number of attempts, of
# which those with an answer are read, or as soon as the best answer leads the next one by a margin of its score. What
# stops also writes no further attempts, so it saves tokens of both kinds. Attempts of a claim could have come in any
# order: what stops nothing has its exact mean over all orders, what stops the mean over twenty.

# %%
shared = {"pool": "votes", "max_traces": MOST}
vote = tb.Sample(name="vote", select="majority", expected=True, **shared)
verified = shared | {"verifier": "trained"}
best = [tb.Sample(name=f"best of {count}", stop=tb.Budget(count), orders=20, **verified) for count in (2, 4, 8)]
best_of_all = tb.Sample(name="best of all", expected=True, **verified)
weighted = tb.Sample(name="weighted vote", select="weighted", orders=20, **verified)
margins = [
    tb.Sample(name=f"margin {margin}", select="weighted", stop=tb.Margin(margin), orders=20, **verified)
    for margin in (0.05, 0.1, 0.2, 0.4)
]
policies = [vote, *best, best_of_all, weighted, *margins]
result = tb.run(log, policies, baseline="vote", where=CLAIMS)
result.table(columns=["policy", "accuracy", "verified", "total_tokens", "difference", "p_adjusted", "remark"])

# %% [markdown]
# Accuracy against the number of verifier calls, with intervals:

# %% tags=["finding"]
result.frontier(cost="verifications")

# %% [markdown]
# ## In which order?
#
# With a fixed number of calls, after which the best score is believed, does it matter which attempts are read first?
# The order in which they were generated is the plain choice; a random order is the control; a surrogate guesses scores
# from those that it has seen and reads the most promising attempt next. It chooses among attempts that are all written.

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
SURE = 0.05
pairs = orders.pairs.filter(metric="accuracy", order="generation", against="surrogate")
apart = pairs.filter(pairs["p_value"] < SURE)
lasting = pairs.filter(pairs["p_value"] * pairs.height < SURE)  # Bonferroni
least, *_, most = pairs.sort("difference", "k").to_dicts()
Markdown(
    f"Generation order minus surrogate order: from {points(least)} at {least['k']} calls to {points(most)} at "
    f"{most['k']}, each interval of its own. Of {pairs.height} p-values {apart.height} are below {SURE}; "
    f"corrected for being so many, {lasting.height}."
)

# %% [markdown]
# And does reading more attempts go on helping? Among more scores the best one may more often be a mistake that the
# verifier likes.

# %%
[more] = result.compare(best_of_all.name, best[-1].name).metrics.filter(metric="accuracy").to_dicts()
Markdown(f"`{best_of_all.name}` minus `{best[-1].name}`, an interval of its own: {points(more)}.")

# %% [markdown]
# ## What was found
#
# What is best in the table was chosen on the claims that the table reports. Here the claims of the split `dev` choose,
# and the others tell what the choice is worth:

# %%
tuned = tb.tune(
    log,
    policies,
    goal="max accuracy",
    baseline="vote",
    on="split = 'dev' and dataset = 'numeric_claims'",
    report=CLAIMS,
)
tuned

# %% tags=["finding"]
chosen, ask_all = tuned.best, best_of_all.name
changes = tuned.report.comparisons.filter(policy=chosen, metric="accuracy")
means = {(row["policy"], row["metric"]): row["estimate"] for row in result.summary.to_dicts()}
[to_vote] = changes.filter(baseline="vote").to_dicts()
[to_all] = tuned.report.compare(chosen, ask_all).metrics.filter(metric="accuracy").to_dicts()
near = tuned.chosen.filter(tuned.chosen["value"] > tuned.chosen["value"].max() - 0.01)["policy"].to_list()
against = differences(result, "vote")
others = [f"`{name}` ({points(against[name])} against the vote)" for name in near if name != chosen]
Markdown(
    f"**Finding.** `{chosen}`, chosen on other claims, takes {means[chosen, 'verifications']:.1f} calls and "
    f"{means[chosen, 'total_tokens']:,.0f} tokens a claim.\n\n"
    f"- Against the vote, which takes {means['vote', 'total_tokens']:,.0f} tokens: {points(to_vote)}. At once for all "
    f"policies, as the first table has it: {points(against[chosen])}.\n"
    f"- Against `{ask_all}`, which takes {means[ask_all, 'verifications']:.1f} calls and "
    f"{means[ask_all, 'total_tokens']:,.0f} tokens: {points(to_all)}.\n"
    f"- On `dev` {len(others)} others are within a point of `{chosen}`{': ' * bool(others)}{', '.join(others)}."
)

# %% [markdown]
# ## What would change it
#
# A better verifier. How good is this one? An oracle that always knew which attempt is right would reach much more from
# the same attempts; the gap between it and a rule is what a verifier could still win.

# %%
oracle = tb.Oracle(name="any right", of=["votes"])
room = tb.run(log, [*policies, oracle], baseline="vote", where=CLAIMS).headroom()
room

# %%
[share] = room.frame.filter(policy=chosen, measure="share_of_headroom").to_dicts()
estimate, low, high = (f"{100 * share[name]:.0f}".replace("-", "−") for name in ("estimate", "low", "high"))
Markdown(
    f"`{chosen}` turns {estimate} % [{low}, {high}] of the room between the vote and the oracle into right answers. "
    "More claims would narrow these intervals, and the choice may be another."
)

# %% [markdown]
# The [study of fact checking](../docs/factcheck.md) asks all of this, and more, by one command. The next notebook asks
# whether to [think again, or think longer](think_again.ipynb).
