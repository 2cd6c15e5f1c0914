# %% [markdown]
# # Trust the numbers
#
# A table says that one policy beats another by a few points, with an interval. **How often does such an interval hold
# the truth, how often is a tie called a win, and what is the winner of many worth?** On real data nobody knows. Here
# the truth is set first, many logs are drawn from it, and every answer is counted.

# %%
import matplotlib.pyplot as plt
import numpy as np
import polars as pl
from IPython.display import Markdown
from scipy.stats import binom, binomtest

import thinkback as tb

WORLDS, QUESTIONS, LEVEL = 150, 200, 0.95
FEW = tb.Settings(resamples=1000, level=LEVEL)


# %% [markdown]
# ## Worlds with a known truth
#
# Each world is a draw of questions. Every policy has a true accuracy; on a half of the questions it stands or falls
# with how hard the question is, which all policies share, so that their outcomes are paired as real ones are. All
# worlds lie in one log, as its data sets, so one replay with `by="dataset"` answers each of them apart.


# %%
def drawn(rates, questions, seed):
    """A log of many worlds, with one pool for each policy, whose true accuracies are `rates`."""
    draw = np.random.default_rng(seed)
    worlds = np.repeat([f"w{number:03}" for number in range(WORLDS)], questions)
    ids = [f"{world}-{number}" for number, world in enumerate(worlds)]
    examples = pl.DataFrame({"example_id": ids, "dataset": worlds, "split": "test", "question": ids, "gold": "yes"})
    hardness, pools = draw.random(len(ids)), []
    for number, rate in enumerate(rates):
        luck = np.where(draw.random(len(ids)) < 0.5, hardness, draw.random(len(ids)))
        told = {"trace_id": [f"{one}/{number}" for one in ids], "example_id": ids, "pool": f"policy {number}"}
        told |= {"action": "solve", "sample_index": 0, "model": "a coin", "completion_tokens": 10}
        pools.append(pl.DataFrame(told | {"answer": np.where(luck < rate, "yes", "no"), "correct": luck < rate}))
    return tb.open_log({"examples": examples, "traces": pl.concat(pools)}, name="worlds", simulated=True)


def replayed(rates, questions, seed):
    """Every world's policies compared with the first."""
    policies = [
        tb.Sample(name=f"policy {number}", pool=f"policy {number}", max_traces=1, select="first")
        for number in range(len(rates))
    ]
    log = drawn(rates, questions, seed)
    return tb.run(log, policies, baseline="policy 0", by="dataset", settings=FEW)


def share(hits, of):
    """A share as text, with the interval of what was counted."""
    found = binomtest(int(hits), int(of)).proportion_ci(method="wilson")
    return f"{100 * hits / of:.1f} % [{100 * found.low:.1f}, {100 * found.high:.1f}]"


# %% [markdown]
# ## Coverage
#
# Six policies that are equally good. An interval is right where it holds the true accuracy; that of a difference is
# right where it holds zero.

# %% tags=["finding"]
TRUTH = 0.7
equal = replayed([TRUTH] * 6, QUESTIONS, seed=1)
accuracy = equal.by_summary.filter(metric="accuracy", policy="policy 0")
difference = equal.by_comparisons.filter(metric="accuracy", baseline="policy 0", policy="policy 1")
holds = accuracy.select((pl.col("low") <= TRUTH) & (pl.col("high") >= TRUTH)).to_series()
none = difference.select((pl.col("low") <= 0) & (pl.col("high") >= 0)).to_series()

shown = accuracy.with_columns(holds=holds).sort("estimate", "dataset")
fig, axes = plt.subplots(figsize=(5.5, 3.2), layout="constrained")
for place, row in enumerate(shown.iter_rows(named=True)):
    axes.plot([place, place], [100 * row["low"], 100 * row["high"]], color="#3F9BD3" if row["holds"] else "#D55E00")
axes.axhline(100 * TRUTH, color="#222222", linewidth=0.8)
axes.set(xlabel="worlds, by what was measured", ylabel="interval of the accuracy, %", xticks=[])
plt.show()

# %% tags=["finding"]
Markdown(
    f"**Finding.** Of {WORLDS} intervals for {100 * LEVEL:.0f} %, {share(holds.sum(), WORLDS)} hold the true accuracy, "
    f"and {share(none.sum(), WORLDS)} of those of a difference hold zero."
)

# %% [markdown]
# ## Ties
#
# Among six equal policies there are many pairs, and some pair looks different by luck. So the tables say who ties with
# the leader with limits that hold for all pairs at once. Every policy that is said not to tie is an error here:

# %%
ranks = equal.by_ranks.filter(metric="accuracy")
told_apart = ranks.group_by("dataset").agg(~pl.col("ties").all())["ties"]
pairs = equal.by_comparisons.filter(metric="accuracy", baseline="policy 0").drop_nulls("p_value")
alone = pairs.group_by("dataset").agg((pl.col("p_value") < 1 - LEVEL).any())["p_value"]
Markdown(
    f"In {share(told_apart.sum(), WORLDS)} of the worlds some policy is told apart from the leader. Whoever looks only "
    f"at the p-values to the baseline, each of its own, finds a difference in {share(alone.sum(), WORLDS)}."
)

# %% [markdown]
# ## The leader is flattered
#
# The best of six equal policies is the luckiest one. Its measured accuracy is too high, though each interval is right
# for a policy that was named before. Tables therefore show what was chosen on the reported rows a second time,
# [corrected](../docs/statistics.md#overfitting-by-choice) for the choice.

# %%
chosen = ranks.drop_nulls("corrected").join(
    equal.by_summary.filter(metric="accuracy"), on=["dataset", "policy", "metric"], how="inner"
)


def bias(values):
    """The mean error in points, with an interval."""
    error, spread = 100 * (values - TRUTH).mean(), 100 * values.std() / np.sqrt(len(values))
    return f"{error:+.1f} points [{error - 1.96 * spread:+.1f}, {error + 1.96 * spread:+.1f}]".replace("-", "−")


def covers(low, high):
    """How often limits hold the truth."""
    return share(chosen.select((pl.col(low) <= TRUTH) & (pl.col(high) >= TRUTH)).to_series().sum(), chosen.height)


fig, axes = plt.subplots(figsize=(5.5, 3.0), layout="constrained")
bins = np.arange(100 * TRUTH - 10.25, 100 * TRUTH + 10.5, 0.5)
axes.hist(100 * chosen["estimate"], bins, color="#D55E00", alpha=0.6, label="as measured")
axes.hist(100 * chosen["corrected"], bins, color="#0072B2", alpha=0.6, label="corrected")
axes.axvline(100 * TRUTH, color="#222222", linewidth=0.8)
axes.set(xlabel="accuracy of the leader, %", ylabel="worlds")
axes.legend(frameon=False)
plt.show()

# %%
Markdown(
    f"- As measured, the leader is off by {bias(chosen['estimate'])}; its plain interval holds the truth in "
    f"{covers('low', 'high')}.\n"
    f"- Corrected, it is off by {bias(chosen['corrected'])}; the corrected interval holds the truth in "
    f"{covers('corrected_low', 'corrected_high')}."
)

# %% [markdown]
# ## A real difference
#
# Limits that hold for all pairs at once are wider. Now one policy is truly better than the others, and the question is
# how often it is seen.

# %%
BETTER = 0.08
ahead = replayed([TRUTH, TRUTH + BETTER, TRUTH], QUESTIONS, seed=2)
gain = ahead.by_comparisons.filter(metric="accuracy", baseline="policy 0", policy="policy 1")
caught = gain.select((pl.col("low") <= BETTER) & (pl.col("high") >= BETTER)).to_series()
seen = gain.select(pl.col("low") > 0).to_series()
measured = ahead.by_summary.filter(metric="accuracy").sort("estimate", "policy", descending=[True, False])
best = measured.unique("dataset", keep="first", maintain_order=True)
tied = ahead.by_ranks.filter(metric="accuracy", policy="policy 1")["ties"]
Markdown(
    f"With {QUESTIONS} questions and a true gain of {100 * BETTER:.0f} points, the interval of the gain holds the "
    f"truth in {share(caught.sum(), WORLDS)} of the worlds and leaves out zero in {share(seen.sum(), WORLDS)}. The "
    f"better policy leads in {share(best.filter(policy='policy 1').height, WORLDS)}, and leads or ties in "
    f"{share(tied.sum(), WORLDS)}."
)

# %% [markdown]
# ## What would change it
#
# Few questions, and accuracies near the ends. Resampling can say little where nearly nothing was wrong: such intervals
# come from other methods, and tables mark them with a dagger.

# %%
NEARLY, SCARCE = 0.97, 30
scarce = replayed([NEARLY, NEARLY], SCARCE, seed=3).by_summary.filter(metric="accuracy", policy="policy 0")
held = scarce.select((pl.col("low") <= NEARLY) & (pl.col("high") >= NEARLY)).to_series()
methods = ", ".join(f"`{name}`" for name in sorted(scarce["method"].drop_nulls().unique()))
width = 100 * (scarce["high"] - scarce["low"]).mean()
limits = [(right, binomtest(right, SCARCE).proportion_ci(method="wilson")) for right in range(SCARCE + 1)]
exact = sum(binom.pmf(right, SCARCE, NEARLY) for right, one in limits if one.low <= NEARLY <= one.high)
Markdown(
    f"With {SCARCE} questions and a true accuracy of {100 * NEARLY:.0f} %, {share(held.sum(), WORLDS)} of the "
    f"intervals hold the truth (method: {methods}). They are {width:.0f} points wide. Only a few counts are likely, "
    f"so no interval holds the truth in exactly {100 * LEVEL:.0f} %: over all draws, not only these {WORLDS}, Wilson's "
    f"does in {100 * exact:.1f} %."
)

# %% [markdown]
# Simulated questions are drawn alike and apart from each other. Where yours come in clusters, such as several questions
# about one text, [say so](../docs/statistics.md#clusters): else every interval is too narrow.
# [Coverage](../docs/coverage.md) has the measurements at length, with the cells in which intervals cover too little.
