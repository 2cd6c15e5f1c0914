# %% [markdown]
# # Retrieval with an answer frontier
#
# A retriever reads documents round by round, and a reader answers from each batch. **Should documents count more when
# the answers from their batch agree?** And is more gained by better evidence, by more chains of reasoning, or by a
# verifier that chooses among them? Two worlds, in which the truth was planted: in one agreement tells of gold
# documents, in the other it tells nothing.

# %%
import tempfile
from pathlib import Path

from IPython.display import Markdown

import thinkback as tb
from generate.simulation.chains import ChainsModel
from generate.simulation.rounds import RoundsModel, simulate_rounds

here = Path(tempfile.mkdtemp())
chains = ChainsModel(chains=4, further=True)
telling = RoundsModel(tie=1, explored=True, lost=0.3, gained=0.2)
silent = RoundsModel(tie=0, agreement=0.75)
simulate_rounds(here / "telling", examples=200, seed=1, name="telling", model=telling, chains=chains)
simulate_rounds(here / "silent", examples=200, seed=1, name="silent", model=silent, chains=chains)


def study(name):
    """The study of a log."""
    return tb.study_multihop(here / name, decoder="weak", resamples=1000)


def sentences(report, *beginnings):
    """The verdicts that begin so."""
    lines = [line for heading, group in report.words.items() if heading.startswith("Verdicts") for line in group]
    return "\n".join(f"- {line}" for line in lines if line.startswith(beginnings))


report, other = study("telling"), study("silent")

# %% [markdown]
# ## Does agreement find gold documents?
#
# Four readings of the thesis's frontier, plain re-ranking by relevance, and SUNAR, which divides the relevance of a
# batch by the pairs of its answers that contradict each other.

# %%
report.tables["table_5_1"]

# %% tags=["finding"]
report.figures["rankings"]


# %% tags=["finding"]
def both(*beginnings):
    """The verdicts of both worlds."""
    return f"Where agreement tells of gold:\n\n{sentences(report, *beginnings)}\n\n" + (
        f"Where it tells nothing:\n\n{sentences(other, *beginnings)}"
    )


Markdown(f"**Finding.** {both('does rewarding')}")

# %%
Markdown(both("does reward beat", "The sign"))

# %% [markdown]
# Whether exploring by rewarded scores reads more gold documents is another question, which only a second pool of rounds
# can answer:

# %%
report.tables["explored"]

# %% [markdown]
# ## More chains, and who chooses among them
#
# From each evidence a reader wrote one chain, and several. The ideal verifier sees gold.

# %%
report.figures["figure_5_2"]

# %%
Markdown(sentences(report, "do more", "does choosing", "does an encoder", "is pruning"))

# %% [markdown]
# ## What is lost where
#
# What an answer lacks is split question by question: no chain is right even with gold evidence; one is, and none with
# what was retrieved; one was right, and another answer was given.

# %%
report.figures["headroom"]

# %%
Markdown(sentences(report, "does evidence cap", "does rewarded evidence"))
