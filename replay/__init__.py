"""Stage two: evaluate allocation policies on a log, counterfactually.

>>> import replay
>>> result = replay.run("LOG", "policies.toml", baseline="best of 15")  # doctest: +SKIP
>>> print(result.summary)  # doctest: +SKIP
"""

from replay.fits import Calibration, Conformal, Prior
from replay.gates import AllOf, AnyOf, Reading
from replay.interventions import Act, Choice, Route, When
from replay.policies import Oracle, Policy, Sample
from replay.prefix import Prefix
from replay.reading import PolicyFile, load_policies
from replay.run import Result, run
from replay.stops import Agreement, Budget, Margin, Never, Rule, Window
from replay.surrogate_weights import surrogate_weights
from replay.tune import tune

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
