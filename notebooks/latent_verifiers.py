# %% [markdown]
# # Latent verifiers
#
# A model's hidden states may hold whether what it writes is right. **Does a small classifier on them know more than a
# vote, and more than how likely the model found its own text?** First where the answer is known, since the signal was
# put there; then on real states, where it is not.

# %%
import shutil
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
from IPython.display import Markdown, display

import thinkback as tb
from generate.simulation.planted import PlantedModel, simulate_planted

here = Path(tempfile.mkdtemp())
TRAIN, TEST = "split = 'train'", "split = 'test'"


def fitted(path, train_on, **asked):
    """Fit `latent` on a log's states, add it to the log, and say what it and every other signal is worth."""
    made = tb.fit_verifier(path, train_on, name="latent", model="logistic", **asked)
    [(_, worth), *_] = made.quality
    return made, {signal.name: signal for signal in worth.signals}


def told(found):
    """An area with its interval."""
    return f"{found.estimate:.3f} [{found.low:.3f}, {found.high:.3f}]"


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
# ## A signal that was planted
#
# Every state is noise plus, along one direction, whether the trace is right and how hard its question is. So it is
# known how well any classifier can do, over all traces and within a question.

# %%
QUESTIONS, TRACES = 300, 8
model = PlantedModel()
planted = here / "planted"
simulate_planted(planted, examples=QUESTIONS, traces=TRACES, seed=1, name="planted")
Markdown(
    f"The best that is possible: an AUC of {model.auc():.3f} over all traces, of {model.auc_within():.3f} within "
    f"questions, and {100 * model.best_of_accuracy(TRACES):.1f} % right when the best of {TRACES} is taken. A weighted "
    "vote may be right more often: it adds up the scores of equal answers."
)

# %% [markdown]
# The verifier is fitted on one half of the questions. Each trace of these is scored by a model that has not seen its
# question.

# %%
made, signals = fitted(planted, TRAIN)
for table in made.tables():
    display(table.only(["signal", "AUC", "AUC within"]))

# %%
latent = signals["latent"]
Markdown(
    f"Fitted on {QUESTIONS // 2} questions, `latent` has an AUC of {told(latent.auc)}, and of "
    f"{told(latent.within)} within questions, which is what choosing among answers depends on."
)

# %% [markdown]
# ## The replay
#
# From here on `latent` is a verifier like any other. Does it pay? A vote, the best and the weighted vote by `latent`,
# and the same by `projection`, the true direction, which no one has outside a simulation. It is no probability: it is
# negative where an answer looks wrong, which then loses weight in a vote. The table warns of that. The vote and the
# best are exact means over all orders of the samples, the weighted votes means over twenty.

# %%
shared = {"pool": f"n{TRACES}", "max_traces": TRACES}
policies = [tb.Sample(name="vote", select="majority", expected=True, **shared)]
for verifier in ("latent", "projection"):
    verified = shared | {"verifier": verifier}
    policies.append(tb.Sample(name=f"best by {verifier}", expected=True, **verified))
    policies.append(tb.Sample(name=f"weighted by {verifier}", select="weighted", orders=20, **verified))
result = tb.run(planted, policies, baseline="vote", where=TEST)
result.table(columns=["policy", "accuracy", "verified", "difference", "p_adjusted", "remark"])

# %% [markdown]
# With few samples to spend, what is best at each number of them? `best` is by the verifier, `majority` the vote, `pass`
# the oracle that knows which sample is right, `avg` a single sample.

# %% tags=["finding"]
curves = tb.curves(planted, pool=f"n{TRACES}", verifier="latent", where=TEST, resamples=500)
fig, axes = plt.subplots(figsize=(5.5, 3.2), layout="constrained")
for (metric,), line in curves.group_by(["metric"], maintain_order=True):
    axes.plot(line["k"], 100 * line["estimate"], marker="o", label=metric)
    axes.fill_between(line["k"], 100 * line["low"], 100 * line["high"], alpha=0.12)
axes.set(xlabel="samples", ylabel="accuracy, %")
axes.legend(frameon=False)
plt.show()

# %% tags=["finding"]
against = differences(result, "vote")
Markdown(
    f"**Finding.** Against the vote of {TRACES}, with limits at once for all: the best by `latent` "
    f"{points(against['best by latent'])}, the weighted vote {points(against['weighted by latent'])}. With the true "
    f"direction these would be {points(against['best by projection'])} and "
    f"{points(against['weighted by projection'])}."
)

# %% [markdown]
# ## Real states
#
# The log in `data/` holds the states of one greedy answer to each question. Does a verifier on them know more than the
# log-probability of the text, which costs nothing?

# %%
real = here / "real"
shutil.copytree("../data/log", real)
_, on_data = fitted(real, f"{TRAIN} and dataset = 'algebra_linear_1d'", states="algebra-1m", tokens=(-1,))
text = on_data["whole text"]
more = text.auc_difference
known = "less" if more.high < 0 else "more" if more.low > 0 else "neither more nor less, as far as is shown,"
change = f"{more.difference:+.3f} [{more.low:+.3f}, {more.high:+.3f}]".replace("-", "−")
Markdown(
    f"On real equations `latent` has an AUC of {told(on_data['latent'].auc)}, the log-probability of the "
    f"whole text {told(text.auc)}, a paired difference of {change}. On these states the verifier knows {known} than "
    "what is had for free."
)

# %% [markdown]
# ## What would change it
#
# A weaker signal, or one that lies across more dimensions than there are questions to learn it from. Here the same
# signal in many dimensions, learnt from the same number of questions:

# %%
wide = here / "wide"
DIMENSIONS = 128
many = PlantedModel(dimensions=DIMENSIONS)
simulate_planted(wide, examples=QUESTIONS, traces=TRACES, seed=1, name="wide", model=many)
_, again = fitted(wide, TRAIN)
ceiling, within = many.auc_within(), again["latent"].within
reached = "lies within" if within.low <= ceiling <= within.high else "lies outside of"
Markdown(
    f"Within questions: {told(latent.within)} in {model.dimensions} dimensions, {told(within)} in {DIMENSIONS}. The "
    f"best that is possible is {ceiling:.3f} in both; it {reached} the second interval."
)

# %% [markdown]
# And a model that was larger, or states of every sample instead of one: the states of two small models say little about
# others. [Latent verifiers](../docs/latent.md) has the options and what was measured at length.
#
# All of this rests on intervals. The next notebook asks whether [they can be trusted](trust_the_numbers.ipynb).
