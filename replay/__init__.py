"""Stage two: evaluate allocation policies on a log, counterfactually.

>>> import replay
>>> result = replay.run("LOG", "policies.toml", baseline="best of 15")  # doctest: +SKIP
>>> print(result.summary)  # doctest: +SKIP
"""

from replay.gates import AllOf, AnyOf, Reading
from replay.interventions import Act, Choice, Route, When
from replay.policies import Oracle, Policy, Sample
from replay.prefix import Prefix
from replay.reading import PolicyFile, load_policies
from replay.run import Result, run
from replay.stops import Agreement, Budget, Margin, Never, Rule, Window

__all__ = [
    "Act",
    "Agreement",
    "AllOf",
    "AnyOf",
    "Budget",
    "Choice",
    "Margin",
    "Never",
    "Oracle",
    "Policy",
    "PolicyFile",
    "Prefix",
    "Reading",
    "Result",
    "Route",
    "Rule",
    "Sample",
    "When",
    "Window",
    "load_policies",
    "run",
]
