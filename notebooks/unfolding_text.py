# %% [markdown]
# # Text that unfolds
#
# A text comes word by word, and something in it may be wrong. A system names the claims that it has heard, searches,
# and checks each. **At the first refutation, or only at one that it is sure of: when should it act?** Acting early
# finds more errors and raises more false alarms. Two simulated worlds, in which the truth was planted: in one the
# confidence of a verdict tells how often it is right, in the other it tells nothing.

# %%
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
from IPython.display import Markdown

import thinkback as tb
from generate.simulation.checks import CheckingModel, simulate_checks
from replay.kinds.buzz import Buzz

here = Path(tempfile.mkdtemp())
WORLDS = {"telling": 1.0, "silent": 0.0}  # what confidence knows of a verdict
for name, known in WORLDS.items():
    whole = {"calibration": known, "spurious": 0.15}
    pools = {
        "listening": CheckingModel(**whole, extraction=0.9, direct=0.65),
        "one-shot": CheckingModel(**whole, extraction=0.5),
    }
    simulate_checks(here / name, examples=1000, seed=1, name=name, pools=pools)

reports = {name: tb.study_buzz(here / name, resamples=1000) for name in WORLDS}
report = reports["telling"]


def sentences(of, *beginnings):
    """The verdicts that begin so."""
    lines = [line for heading, group in of.words.items() if heading.startswith("Verdicts") for line in group]
    return "\n".join(f"- {line}" for line in lines if line.startswith(beginnings))


# %% [markdown]
# ## One text, as it was heard
#
# The study chooses three texts by rule: an error that is found soonest, one that is not, a false alarm.

# %%
report.figures["figure_1"]

# %% [markdown]
# ## Claim by claim, or the whole text?
#
# The simplest rule acts at the first refutation and listens to the end. Beside it stand a verdict on the whole text,
# and one after each sentence.

# %%
report.tables["table_7"]

# %% [markdown]
# The same system whose extractor replies once, without revisions, and without further rounds:

# %%
report.tables["table_3"]

# %%
Markdown(sentences(report, "is DIVER more accurate", "does DIVER refute", "does extracting", "do further rounds make"))

# %% [markdown]
# When it acts is told by Δ: how far behind the first word that shows the error, as a share of the text.

# %%
report.figures["acts"]

# %%
report.tables["timing"]

# %% [markdown]
# ## How sure should it be?
#
# A refutation counts from a confidence on. The log has every verdict, so each threshold is a policy that is replayed.

# %%
THRESHOLDS = (0, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
policies = [Buzz(name=f"from {one:g} on", pool="listening", confidence=one, to_end=True) for one in THRESHOLDS]
EVERY = policies[0].name
runs = {name: tb.run(here / name, policies, baseline=EVERY, where="split = 'test'", resamples=2000) for name in WORLDS}

# %% tags=["finding"]
fig, axes = plt.subplots(figsize=(5.5, 3.2), layout="constrained")
for name, of in runs.items():
    alarms, finds = (of.summary.filter(metric=metric) for metric in ("false_alarm", "found"))
    line = alarms.select("policy", alarms="estimate").join(finds, on="policy", maintain_order="left")
    axes.plot(100 * line["alarms"], 100 * line["estimate"], marker="o", markersize=3, label=f"confidence is {name}")
    axes.fill_between(100 * line["alarms"], 100 * line["low"], 100 * line["high"], alpha=0.12)
axes.set(xlabel="false alarms, % of texts without an error", ylabel="errors found, %")
axes.set_title("simulated", fontsize="small", loc="right")
axes.legend(frameon=False)
plt.show()

# %% [markdown]
# The texts of the split `dev` chose a threshold in the world where confidences tell. What it is worth on the others,
# and what the same threshold is worth where confidences are silent:

# %% tags=["finding"]
learnt = report.parts[0].learnt_threshold


def gain(name):
    """What the threshold adds to accuracy in a world, with its interval."""
    [row] = runs[name].compare(f"from {learnt:g} on", EVERY).metrics.filter(metric="accuracy").to_dicts()
    numbers = (f"{100 * row[key]:+.1f}" for key in ("difference", "low", "high"))
    return "{} points [{}, {}]".format(*numbers).replace("-", "−")


Markdown(
    f"**Finding.** Acting only at refutations of a confidence from {learnt:g} on, in place of every one, changes "
    f"accuracy by {gain('telling')} where confidence tells how often verdicts are right, and by {gain('silent')} where "
    "it does not (simulated logs)."
)

# %% [markdown]
# Patience, further rounds and more claims move along the frontier, too:

# %%
report.figures["frontier"]

# %% [markdown]
# ## What being slow costs
#
# So far the text waits for the check. Where it goes on, each second costs words:

# %%
report.tables["clock"]

# %% [markdown]
# ## What is lost where
#
# Beside the best act in hindsight, which sees gold: errors that no claim names, claims that no search decided, and
# wrong verdicts.

# %%
report.tables["headroom"]

# %% [markdown]
# Five invented people answered each text, as contestants of a show would:

# %%
Markdown(sentences(report, "is DIVER right", "does DIVER act sooner"))
