"""The kinds of policies: one module each; `stages` has what their explanations share."""

from replay.kinds.act import Act
from replay.kinds.buzz import BestBuzz, Buzz
from replay.kinds.graded import Graded
from replay.kinds.oracle import Oracle
from replay.kinds.retrieve import Retrieve
from replay.kinds.route import Route
from replay.kinds.sample import Sample
from replay.kinds.when import When
from replay.policies.base import KINDS

for kind in (Sample, Act, When, Graded, Route, Oracle, Retrieve, Buzz, BestBuzz):
    KINDS[kind.kind] = kind
