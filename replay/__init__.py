"""Stage two: evaluate allocation policies on a log, counterfactually.

>>> import replay
>>> result = replay.run("LOG", "policies.toml", baseline="best of 15")  # doctest: +SKIP
>>> print(result.summary)  # doctest: +SKIP
"""

from replay.analyses.surrogate_weights import surrogate_weights
from replay.analyses.tuning import tune
from replay.policies.base import Oracle, Policy, Sample
from replay.policies.gates import AllOf, AnyOf, Reading
from replay.policies.interventions import Act, Choice, Route, When
from replay.policies.toml import PolicyFile, load_policies
from replay.runs.run import Result, run
from replay.sampling.learned import Calibration, Conformal, Prior
from replay.sampling.prefix import Prefix
from replay.sampling.stops import Agreement, Budget, Margin, Never, Rule, Window

__all__ = [
    "Act",
    "Agreement",
    "AllOf",
    "AnyOf",
    "Budget",
    "Calibration",
    "Choice",
    "Conformal",
    "Margin",
    "Never",
    "Oracle",
    "Policy",
    "PolicyFile",
    "Prefix",
    "Prior",
    "Reading",
    "Result",
    "Route",
    "Rule",
    "Sample",
    "When",
    "Window",
    "load_policies",
    "run",
    "surrogate_weights",
    "tune",
]
