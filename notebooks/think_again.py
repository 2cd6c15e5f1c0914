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
from IPython.display import Markdown, display

import thinkback as tb

log = tb.open_log("../data/log")
TEST = "split = 'test'"
gate = Path(tempfile.mkdtemp()) / "gate.json"
FEW = tb.Settings(resamples=2000)


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
result = tb.run(log, policies, baseline="accept", where=TEST, settings=FEW)
result.table(columns=["policy", "accuracy", "total_tokens", "difference", "fix_rate", "flip_rate", "remark"])

# %% [markdown]
# A *fix* is a wrong answer that became right, a *flip* the reverse: the gain in accuracy is the one minus the other.

# %% tags=["finding"]
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
#
# The question is what beats the longer limit, so this is the baseline now, and the learned gate is a policy among the
# others.

# %%
gated = tb.When(name="verify by the learned gate", base=first, gate=tb.Threshold(file=str(gate)), then=verify)
final = tb.run(log, [*policies, gated], baseline=longer.name, where=TEST, by="dataset", settings=FEW)
final.table(columns=["policy", "accuracy", "total_tokens", "difference", "p_adjusted", "fix_rate", "flip_rate"])

# %% tags=["finding"]
against = differences(final, longer.name)
better = [name for name, row in against.items() if row["low"] > 0]
found = {(row["policy"], row["metric"]): row["estimate"] for row in final.summary.to_dicts()}
lines = [
    f"- `{policy.name}`: {points(against[policy.name])}, {found[policy.name, 'total_tokens']:.0f} tokens; "
    f"{100 * found[policy.name, 'flip_rate']:.1f} % of all answers were right and are wrong after it."
    for policy in (go_on_cut, gated, verify_cut, verify)
]
Markdown(
    f"**Finding.** Against `{longer.name}`, which takes {found[longer.name, 'total_tokens']:.0f} tokens, "
    f"{len(better)} of {len(against)} policies have a gain whose interval leaves out zero:\n\n" + "\n".join(lines)
)

# %% [markdown]
# Which should be served? The recommendation of the [study](../docs/thinking-again.md#the-recommendation) weighs them by
# paired intervals, in a fixed order: tune the budget, vote, intervene, disable, or undecided. What acts only on some
# questions has to be named before: it is the learned gate, or that rule for what was cut off which `dev` chooses.

# %%
tuned = tb.tune(
    log, [first, verify_cut, go_on_cut], goal="max accuracy", baseline="accept", on="split = 'dev'", report=TEST,
    settings=FEW,
)  # fmt: skip
simple = next(policy for policy in (first, verify_cut, go_on_cut) if policy.name == tuned.best)
for selective in (gated, simple):
    advice = tb.recommend(
        log,
        [first, longer, verify, go_on, selective],
        base="accept",
        budgets=longer.name,
        selective=selective.name,
        actions=[verify.name, go_on.name],
        where=TEST,
        settings=FEW,
    )
    display(Markdown(f"With `{selective.name}`:"), advice)

# %% [markdown]
# Where no gain's interval leaves out zero, what is spoilt and what it costs may decide: a longer attempt is a new one,
# which can lose an answer that was right, and going on with what was cut off keeps it.

# %% [markdown]
# ## What would change it
#
# The task. The same policies on each data set alone:

# %%
lines = []
for dataset, rows in final.by_comparisons.filter(baseline=longer.name, metric="accuracy").group_by("dataset"):
    limits = final.by_ranks.filter(metric="accuracy", dataset=dataset[0])
    within = rows.join(limits.select("policy", "baseline_low", "baseline_high"), on="policy")
    for row in within.drop("low", "high").rename({"baseline_low": "low", "baseline_high": "high"}).to_dicts():
        lines.append((row["dataset"], -row["difference"], row["policy"], points(row)))
told = [f"| {dataset} | {policy} | {change} |" for dataset, _, policy, change in sorted(lines)]
Markdown("\n".join([f"| data set | policy | against `{longer.name}` |", "| :-- | :-- | :-- |", *told]))

# %% [markdown]
# Rows whose interval leaves out zero are told apart on that data set. The limit matters, too: the shorter it is, the
# more attempts are cut off. Where the longer limit is no option, as for a model that is served with a fixed one, the
# comparison is between the other rows.
#
# The next notebook asks whether a model's hidden states tell [what is right](latent_verifiers.ipynb).
