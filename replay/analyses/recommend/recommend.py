"""Think again, or think longer? A decision from paired intervals, with the numbers that it rests on.

*Tune the budget* when some longer pool is worse by more than a margin neither than the best intervention nor than the
base attempt, and costs fewer tokens than the intervention. *Intervene* when a selective policy beats the best budget in
accuracy, or halves its flips at no loss. *Vote* when self-consistency beats the best intervention and the best budget,
for no more tokens than the intervention; an intervention that such a vote beats is none. *Disable* when an action's
flips exceed its fixes. *Undecided* otherwise, with about how many examples would decide. The initial budget comes
first, then votes. Where several policies could decide for a verdict, the limits are those that hold for all of them at
once, so that looking at more policies finds no more by chance. Outcomes that are counted in examples, or in clusters of
them, also need McNemar's exact p-value to vote, to intervene or to disable: the limits of a handful of fixes and flips
claim a little too much.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from replay.analyses.recommend.evidence import (
    DISABLE,
    EQUAL_VOTES,
    INTERVENE,
    POWER,
    TUNE,
    UNDECIDED,
    VOTE,
    ComparisonEvidence,
    Outcomes,
    PairedEvidence,
)
from replay.policies.toml import POLICIES, RULES, GivenPolicies, load_policies
from replay.runs.passes.store import resampling_units
from replay.runs.result.result import Result
from replay.runs.result.run import run
from replay.sampling.own_rules import GivenRules
from toolkit.arguments import checks_arguments
from toolkit.errors import ThinkbackError, argument, suggest
from toolkit.log import TAKES, AnyLog, open_log
from toolkit.show.tables.html import bullets, marked
from toolkit.stats import Settings, check_margin

COLUMNS = ("correct", "fix", "flip", "total_tokens")
NAMED = "names of policies, or one"
NO_BUDGET = "No longer pool is compared, so no budget could be judged."


@dataclass(frozen=True)
class Recommendation:
    """The verdict, the sentences behind it, the actions to disable, and for `undecided` about how many examples."""

    verdict: str
    sentences: tuple[str, ...]
    disable: tuple[str, ...]
    examples_needed: int | None
    evidence: tuple[ComparisonEvidence, ...]
    simulated: bool = field(default=False, compare=False)

    def _repr_html_(self) -> str:
        return marked(self.simulated) + bullets(self.verdict, self.sentences)


@checks_arguments(
    log=TAKES,
    policies=POLICIES,
    base="a policy's name",
    budgets=NAMED,
    selective=NAMED,
    actions=NAMED,
    votes=NAMED,
    margin="a difference in accuracy, such as 0.01",
    rules=RULES,
)
def recommend(
    log: AnyLog,
    policies: GivenPolicies,
    *,
    base: str,
    budgets: str | Sequence[str] = (),
    selective: str | Sequence[str] = (),
    actions: str | Sequence[str] = (),
    votes: str | Sequence[str] = (),
    margin: float = 0.01,
    rules: GivenRules = None,
    **asked: Any,
) -> Recommendation:
    """Replay policies and decide between longer pools (`budgets`), `votes`, gated ones (`selective`), always acting.

    `base` names the short attempt; the others name policies, or sweeps, by the part that they play. `margin` is the
    loss of accuracy that is tolerated. What else is `asked` (where, settings, resamples …) goes to `replay.run`. Raises
    ThinkbackError for a name that no policy has, and for one that the log cannot serve.
    """
    roles = {"budgets": budgets, "selective": selective, "actions": actions, "votes": votes}
    parts = {role: (names,) if isinstance(names, str) else tuple(names) for role, names in roles.items()}
    if not any(parts.values()):
        raise ThinkbackError(
            f"there is nothing to decide between: name policies with {argument('budgets')}, `selective` or `actions`"
        )
    log, file = open_log(log), load_policies(policies, rules)
    compared = tuple(
        replace(one, against=base)
        if {one.name, one.sweep} & set(parts["budgets"]) and not one.flips_against and one.name != base
        else one
        for one in file.policies
    )
    result = run(log, replace(file, policies=compared), baseline=base, **asked)
    outcomes = {role: _outcomes(result, role, names) for role, names in parts.items()}
    of_base = _outcomes(result, "base", (base,))[base]
    cluster = resampling_units(result.examples).to_numpy()
    found = weigh((base, of_base), **outcomes, margin=margin, cluster=cluster, settings=result.summariser.settings)
    return replace(found, simulated=result.simulated)


def _outcomes(result: Result, role: str, names: Sequence[str]) -> dict[str, Outcomes]:
    """Outcomes of the policies, or of the settings of the sweeps, that are named for a role, in example_id order."""
    found: dict[str, Outcomes] = {}
    for name in names:
        members = [one.name for one in result.policies if name in (one.name, one.sweep)]
        if not members and name in result.dropped:
            raise ThinkbackError(f"{argument(role)} names `{name}`, which is dropped: {result.dropped[name]}")
        if not members:
            known = [one.name for one in result.policies]
            raise ThinkbackError(f"{argument(role)} names no policy: `{name}`; {suggest(name, known)}")
        for member in members:
            frame = result.outcomes.filter(policy=member).collect()
            found[member] = {column: frame[column].fill_null(np.nan).to_numpy() for column in COLUMNS}
    return found


def weigh(
    base: tuple[str, Outcomes],
    budgets: Mapping[str, Outcomes],
    selective: Mapping[str, Outcomes],
    actions: Mapping[str, Outcomes],
    *,
    votes: Mapping[str, Outcomes] | None = None,
    margin: float = 0.01,
    cluster: np.ndarray | None = None,
    settings: Settings = Settings(),  # noqa: B008 -- frozen
) -> Recommendation:
    """Decide from the outcomes of longer pools (`budgets`), gated policies (`selective`) and always acting (`actions`).

    Everything is compared on the same examples; `base` is the short attempt with its name. Of the `votes`, the one
    with the most tokens that are not more than an intervention's is that intervention's rival. Raises ThinkbackError
    without examples.
    """
    check_margin(margin)
    if not len(base[1]["correct"]):
        raise ThinkbackError("there is no example to decide by")
    judge = PairedEvidence(margin, cluster, settings)
    rivals = {**selective, **actions} or dict([base])
    best = max(rivals, key=lambda name: float(np.nanmean(rivals[name]["correct"])))
    evidence = list(judge.tuning(budgets, base, best, rivals[best]))
    longest = max({**budgets, base[0]: base[1]}.items(), key=lambda item: float(np.nanmean(item[1]["correct"])))
    voted, beaten = judge.voting(votes or {}, {**selective, **actions}, best, longest)
    evidence += voted
    evidence += [
        replace(e, holds=e.holds and e.policy not in beaten)
        for e in judge.intervening(selective, longest, bool(budgets))
    ]
    evidence += judge.disabling(actions)
    order = (TUNE, VOTE, INTERVENE, DISABLE)
    found = {verdict: [e for e in evidence if e.verdict == verdict and e.holds] for verdict in order}
    disable = tuple(e.policy for e in found[DISABLE])
    unjudged = (
        *((EQUAL_VOTES,) if voted else ()), *judge.most_votes(votes or {}, best, rivals[best]),
        *(() if budgets else (NO_BUDGET,)),
    )  # fmt: skip
    for verdict in order:
        if found[verdict]:
            told = [e.sentence for e in found[verdict]]
            told += [e.sentence for e in voted] if verdict in (TUNE, INTERVENE) else []
            told += [e.sentence for e in found[DISABLE]] if verdict != DISABLE else []
            return Recommendation(verdict, (*told, *unjudged), disable, None, tuple(evidence))
    open_ = sorted((e for e in evidence if e.needed is not None), key=lambda e: e.needed or 0)
    sentences = [*(e.sentence for e in evidence), *unjudged]
    needed = open_[0].needed if open_ else None
    sentences += judge.too_few(len(base[1]["correct"])) if budgets or selective else ()
    n = len(base[1]["correct"])
    do = "example does" if n == 1 else "examples do"
    if needed is not None:
        sentences.append(
            f"{n:,} {do} not decide; if the differences stay as they are, about {needed:,} would, with "
            f"{100 * POWER:g} % power ({open_[0].verdict})."
        )
    else:
        sentences.append(f"{n:,} {do} not decide, and no difference points to a decision that more would make.")
    return Recommendation(UNDECIDED, tuple(sentences), (), needed, tuple(evidence))
