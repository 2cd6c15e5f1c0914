"""The parts of the campaign, by the names that the command line knows them under."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tests.fuzz.campaign import Part
from tests.fuzz.damaged_logs import DamagedLogs
from tests.fuzz.damaged_models import DamagedModels
from tests.fuzz.damaged_results import DamagedResults
from tests.fuzz.hostile_texts import HostileTexts
from tests.fuzz.mutated_toml import MutatedToml
from tests.fuzz.signals import Signals

PARTS: Mapping[str, Callable[[], Part]] = {
    made.name: made for made in (DamagedLogs, DamagedResults, DamagedModels, MutatedToml, HostileTexts, Signals)
}
