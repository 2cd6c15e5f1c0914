"""Stage two: evaluate allocation policies on a log, counterfactually.

>>> import replay
>>> result = replay.run("LOG", "policies.toml", baseline="best of 15")  # doctest: +SKIP
>>> print(result.summary)  # doctest: +SKIP
"""

from replay.analyses.budgets.learned_weights import surrogate_weights
from replay.analyses.tune.tuning import tune
from replay.kinds import Act, Graded, Oracle, Route, Sample, When
from replay.kinds.route import Router
from replay.policies.base import KINDS, Policy
from replay.policies.gates import AllOf, AnyOf, Threshold
from replay.policies.toml import PolicyFile, load_policies
from replay.runs.explain.explain import explain
from replay.runs.passes.user_metrics import Metric
from replay.runs.result.result import Result, load
from replay.runs.result.run import run
from replay.sampling.abandon import Abandon
from replay.sampling.known import ORDERS, SELECTS, STOPS
from replay.sampling.learned import Calibration, Conformal, Prior
from toolkit.stopping.prefix import Prefix
from toolkit.stopping.stops import Agreement, AtLeast, Budget, Margin, Never, Says, StopRule, Window

__all__ = [
    "KINDS", "ORDERS", "SELECTS", "STOPS", "Abandon", "Act", "Agreement", "AllOf", "AnyOf", "AtLeast", "Budget",
    "Calibration", "Conformal", "Graded", "Margin", "Metric", "Never", "Oracle", "Policy", "PolicyFile", "Prefix",
    "Prior", "Result", "Route", "Router", "Sample", "Says", "StopRule", "Threshold", "When", "Window", "explain",
    "load", "load_policies", "run", "surrogate_weights", "tune",
]  # fmt: skip
