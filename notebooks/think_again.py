# %% [markdown]
# # Think again, or think longer?
#
# A model has answered within a short limit of tokens. Some answers were cut off, some are wrong, others are fine.
# **Should it check its answer, go on with it, or should it have had more tokens from the start?** And if it should
# think again: always, or only where something looks doubtful?
#
# The log in `data/` has short attempts at equations and at claims, what each action made of them, and longer attempts
# at the same questions.

# %%
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
from IPython.display import Markdown

import thinkback as tb

log = tb.open_log("../data/log")
TEST = "split = 'test'"
gate = Path(tempfile.mkdtemp()) / "gate.json"
FEW = tb.Settings(resamples=2000)


def points(row):
    """A paired difference as text, with its interval."""
    numbers = [f"{100 * row[name]:+.1f}" for name in ("difference", "low", "high")]
    return "{} points [{}, {}]".format(*numbers).replace("-", "−")


# %% [markdown]
# ## The replay
#
# Accept the short attempt; give every question the longer limit; check every attempt; go on with every attempt; or do
# either only where the attempt was cut off, which a server sees without asking anybody.

# %%
first = tb.Sample(name="accept", pool="short", max_traces=1, select="first")
longer = tb.Sample(name="think longer", pool="long", max_traces=1, select="first", against="accept")
verify = tb.Act(name="verify always", action="active_verify", base="short")
go_on = tb.Act(name="continue always", action="continue", base="short")
cut_off = tb.Threshold(signal="truncated", at_least=1)
verify_cut = tb.When(name="verify what was cut off", base=first, gate=cut_off, then=verify)
go_on_cut = tb.When(name="continue what was cut off", base=first, gate=cut_off, then=go_on)
policies = [first, longer, verify, go_on, verify_cut, go_on_cut]
result = tb.run(log, policies, baseline="accept", where=TEST, by="dataset", settings=FEW)
result.table(columns=["policy", "accuracy", "total_tokens", "difference", "fix_rate", "flip_rate", "remark"])

# %% [markdown]
# A *fix* is a wrong answer that became right, a *flip* the reverse: the gain in accuracy is the one minus the other.

# %%
result.frontier()

# %% [markdown]
# ## A learned gate
#
# What was cut off is one signal. A gate fitted on the questions of `train` reads all that a server sees, and its
# threshold is chosen on those of `dev`. Both are apart from the questions that are reported.

# %%
fitted = tb.fit_gate(log, action="active_verify", on="split = 'train'", tune="split = 'dev'")
fitted.save(gate)
carried = tb.transfer_report(log, gate, where=TEST, settings=FEW)
carried

# %% [markdown]
# Its whole curve, from never acting to always acting, with the threshold that was chosen:

# %%
curve = carried.curve.sort("intervention_rate")
frozen = carried.rule("the gate, frozen")
fig, axes = plt.subplots(figsize=(5.5, 3.2), layout="constrained")
axes.plot(100 * curve["intervention_rate"], 100 * curve["accuracy"], color="#00457A", label="every threshold")
axes.plot(100 * frozen["intervention_rate"], 100 * frozen["accuracy"], "o", color="#D55E00", label="the chosen one")
axes.set(xlabel="questions thought about again, %", ylabel="accuracy, %")
axes.legend(frameon=False)
plt.show()

# %% [markdown]
# ## What was found

# %%
changes = result.comparisons.filter(baseline="accept", metric="accuracy").to_dicts()
against = {row["policy"]: row for row in changes}
tokens = {row["policy"]: row["estimate"] for row in result.summary.filter(metric="total_tokens").to_dicts()}
flips = {row["policy"]: row["estimate"] for row in result.summary.filter(metric="flip_rate").to_dicts()}
Markdown(
    f"- Thinking longer: {points(against['think longer'])} against accepting, for {tokens['think longer']:.0f} "
    "tokens.\n"
    f"- Checking always: {points(against['verify always'])} for {tokens['verify always']:.0f} tokens; it spoils "
    f"{100 * flips['verify always']:.1f} % of all questions, whose answers were right.\n"
    f"- Checking what was cut off: {points(against['verify what was cut off'])} for "
    f"{tokens['verify what was cut off']:.0f} tokens.\n"
    f"- The learned gate acts on {100 * frozen['intervention_rate']:.0f} % of the questions and gains {points(frozen)}."
)

# %% [markdown]
# Which of these should be served? The recommendation of the [study](../docs/thinking-again.md#the-recommendation)
# weighs them by paired intervals, in a fixed order: tune the budget, vote, intervene, disable, or undecided.

# %%
selective = tb.When(name="selective", base=first, gate=tb.Threshold(file=str(gate)), then=verify)
advice = tb.recommend(
    log,
    [first, longer, verify, go_on, selective],
    base="accept",
    budgets="think longer",
    selective="selective",
    actions=["verify always", "continue always"],
    where=TEST,
    settings=FEW,
)
advice

# %% [markdown]
# ## What would change it
#
# The task. The same policies on each data set alone:

# %%
within = result.by_comparisons.filter(baseline="accept", metric="accuracy")
lines = []
for row in within.sort("dataset", "difference", "policy", descending=[False, True, False]).to_dicts():
    lines.append(f"| {row['dataset']} | {row['policy']} | {points(row)} |")
Markdown("\n".join(["| data set | policy | against accepting |", "| :-- | :-- | :-- |", *lines]))

# %% [markdown]
# And the limit: the shorter it is, the more attempts are cut off, and the more there is to repair. Where the longer
# limit is no option, as for a model that is served with a fixed one, the comparison is between the other rows.
#
# The next notebook asks whether a model's hidden states tell [what is right](latent_verifiers.ipynb).
