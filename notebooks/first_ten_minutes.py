# %% [markdown]
# # First ten minutes
#
# You sampled several answers to every question and paid for all of them. **How many would have been enough?** Thinkback
# answers from the file that you have, without a model: it replays what a policy would have looked at, in the order in
# which it would have looked, and adds up what that would have cost.
#
# This notebook needs only Thinkback, installed without extras, and Jupyter. It makes its file itself.

# %%
import json
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from IPython.display import Markdown

import thinkback as tb

here = Path(tempfile.mkdtemp())

# %% [markdown]
# ## A file
#
# Yours comes from an evaluation; its lines will have other names. This one is made up: sums of which some are harder
# than others, a model that errs in a few typical ways, and a reward model that likes right answers a little better.

# %%
QUESTIONS, SAMPLES = 400, 8
draw = np.random.default_rng(0)
lines = []
for number in range(QUESTIONS):
    a, b = (int(one) for one in draw.integers(100, 1000, size=2))
    skill = draw.beta(2.5, 1.5)
    for sample in range(SAMPLES):
        right = draw.random() < skill
        answer = a + b if right else a + b + int(draw.choice([-100, -10, 10, 100]))
        lines.append(
            {
                "id": f"sum-{number:03}",
                "question": f"{a} + {b} = ?",
                "gold": str(a + b),
                "sample": sample,
                "completion": f"{a} and {b} make {answer}.",
                "tokens": int(draw.lognormal(4.5 - skill, 0.4)),
                "reward": round(float(draw.normal(0.8 * right)), 3),
            }
        )
samples = here / "samples.jsonl"
samples.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
print(f"{len(lines):,} lines, the first:\n{json.dumps(lines[0], indent=1)}")

# %% [markdown]
# ## The file becomes a log
#
# A [mapping](../docs/importing.md) says once what the columns mean. The report says what was read, and shows wrong
# answers beside the right ones: look at these first, since a wrong reading gives plausible numbers.

# %%
mapping = here / "map.toml"
mapping.write_text(
    """
name = "sums"
license = "CC0-1.0"
source = "made up by a notebook"

[examples]
example_id = "id"
dataset = "'sums'"
split = "'test'"
question = "question"
gold = "gold"

[traces]
pool = "'n8'"
sample_index = "sample"
model = "'abacus'"
text = "completion"
completion_tokens = "tokens"

[answers]
kind = "number"
read = ["last number"]

[[verifiers]]
verifier = "'reward'"
score = "reward"
""",
    encoding="utf-8",
)
tb.import_table(samples, mapping, here / "log")

# %% [markdown]
# ## The suite
#
# Which policies can this log answer? All of the [standard suite](../docs/cli.md#thinkback-suite) that it has the data
# for. They are compared on the same questions, with paired intervals, and the table ranks them.

# %%
log = tb.open_log(here / "log")
result = tb.run(log, baseline="majority@8")
result

# %% [markdown]
# ## The figure
#
# Quality against cost. What lies on the front is beaten by nothing that costs no more.

# %% tags=["finding"]
result.frontier()

# %% [markdown]
# ## The question
#
# The table is a menu; a goal makes it an answer. One half of the questions chooses, the other half tells what the
# choice is worth, so that the number is not flattered by the choosing.

# %%
tuned = tb.tune(log, goal="cheapest within 3 points of majority@8")
tuned

# %% tags=["finding"]
chosen = tuned.best
changes = tuned.report.comparisons.filter(policy=chosen, baseline="majority@8")
rows = {row["metric"]: row for row in changes.to_dicts()}
means = {(row["policy"], row["metric"]): row["estimate"] for row in tuned.report.summary.to_dicts()}
tokens, change = rows["completion_tokens"], rows["accuracy"]
saved, least, most = (-tokens[name] for name in ("difference", "high", "low"))
whole = means["majority@8", "completion_tokens"]


def points(row):
    """A paired difference as text, with its interval."""
    rounded = [round(100 * row[name], 1) for name in ("difference", "low", "high")]
    numbers = [f"{number:+.1f}" if number else "0.0" for number in rounded]
    return "{} points [{}, {}]".format(*numbers).replace("-", "−")


Markdown(
    f"**Finding.** On {change['n']} questions that did not choose it, `{chosen}` looks at "
    f"{means[chosen, 'traces']:.1f} of {SAMPLES} samples and saves {saved:.0f} tokens [{least:.0f}, {most:.0f}] of the "
    f"{whole:.0f} of the whole vote, {100 * saved / whole:.0f} %. Its accuracy differs from that of the whole vote by "
    f"{points(change)}."
)

# %% [markdown]
# ## One question, explained
#
# Why does a policy stop where it stops? Here is the first question on which stopping early changed the verdict, step by
# step: what was seen, what it cost, and why it ended.

# %%
two = tuned.report.compare(chosen, "majority@8")
differ = two.examples.filter(two.examples["change"] != "other answer")
asked = (differ if differ.height else two.examples if two.examples.height else tuned.report.examples)["example_id"][0]
tuned.report.explain(chosen, asked)

# %% [markdown]
# ## A rule of your own
#
# A stopping rule is a frozen dataclass with one method. It sees what was revealed by each step and no more; [Thinkback
# checks that it does not look ahead](../docs/own-rules.md#no-looking-ahead). This one stops as soon as one answer leads
# by enough votes. The samples could have come in any order: the whole vote is the exact mean over all of them, a vote
# that stops the mean over twenty.


# %%
@dataclass(frozen=True)
class ClearLead:
    """Stop when the leading answer has `lead` more votes than the next one."""

    lead: int = 2

    def holds(self, seen: tb.Prefix) -> np.ndarray:
        return seen.votes - seen.second_votes >= self.lead


votes = {"pool": "n8", "max_traces": SAMPLES, "select": "majority"}
vote = tb.Sample(name="vote", expected=True, **votes)
leads = [tb.Sample(name=f"lead {lead}", stop=ClearLead(lead), orders=20, **votes) for lead in (1, 2, 3)]
mine = tb.run(log, [vote, *leads], baseline="vote")
mine.table(columns=["policy", "accuracy", "completion_tokens", "difference", "p_adjusted"])

# %% [markdown]
# ## When something is wrong
#
# A mistake is one line, which says what is wrong and what to do.

# %% tags=["raises-exception"]
tb.run(log, [vote, *leads], baseline="lead of 2")

# %% [markdown]
# ## What would change it
#
# Fewer questions, first of all. The same comparison on a quarter of them:

# %%
few = tb.run(log, [vote, *leads], baseline="vote", where="example_id < 'sum-100'")


def told(of):
    """The difference of the middle rule to the whole vote, with the table's limits for all policies at once."""
    rows = of.comparisons.filter(policy="lead 2", baseline="vote", metric="accuracy").drop("low", "high")
    limits = of.ranks.select("policy", "metric", low="baseline_low", high="baseline_high")
    [row] = rows.join(limits, on=["policy", "metric"]).to_dicts()
    return f"{points(row)} on {row['n']} questions"


Markdown(
    f"`lead 2` against the whole vote: {told(mine)}; {told(few)}. "
    "An interval that holds losses which you would mind is no proof that there are none."
)

# %% [markdown]
# Samples that are wrong in the same way would change it too: a vote among them is sure and wrong, and a rule that waits
# for agreement stops early on them. Then a verifier is worth its calls, or not: that is the next notebook, on
# [fact checking](fact_checking.ipynb).
#
# Your own file: [a known tool wrote it](../docs/importing.md#known-formats), or a mapping like the one above reads it.
