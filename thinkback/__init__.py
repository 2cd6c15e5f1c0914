"""Thinkback's door: everything that a program needs, by the names of the manual.

>>> import thinkback as tb
>>> result = tb.run("LOG", "policies.toml", baseline="best of 15")  # doctest: +SKIP
>>> print(result.summary)  # doctest: +SKIP

A name is imported when it is first used, so that `import thinkback` costs next to nothing. The command line lives here
too; it parses, calls and writes.
"""

from __future__ import annotations

TYPE_CHECKING = False  # importing `typing` takes long enough to be interrupted
if TYPE_CHECKING:
    from generate.simulation.grid import simulate
    from replay import (
        Abandon,
        Act,
        Agreement,
        AllOf,
        AnyOf,
        AtLeast,
        Budget,
        Calibration,
        Conformal,
        Graded,
        Margin,
        Metric,
        Never,
        Oracle,
        Policy,
        PolicyFile,
        Prefix,
        Prior,
        Result,
        Route,
        Router,
        Sample,
        Says,
        StopRule,
        Threshold,
        When,
        Window,
        explain,
        load,
        load_policies,
        run,
        surrogate_weights,
        tune,
    )  # fmt: skip
    from replay.analyses.budgets.budgets import budgets
    from replay.analyses.plan.plan import plan
    from replay.analyses.recommend.recommend import recommend
    from replay.analyses.report.report import LogReport, report
    from replay.analyses.strategies.frontier import frontier
    from replay.analyses.strategies.strategies import strategies
    from replay.gatefit.fit import fit_gate
    from replay.gatefit.report import transfer_report
    from replay.latent.report import VerifierReport, fit_verifier
    from replay.latent.verifier_file import load_verifier
    from replay.policies.gate_file import load_gate
    from replay.policies.suite import Suite, suite
    from replay.runs.compare.curves import curves
    from replay.runs.result.run import check_policies
    from replay.studies.buzz.report import study_buzz
    from replay.studies.factcheck.report import study_factcheck
    from replay.studies.kit.report import StudyReport
    from replay.studies.latent.report import study_latent
    from replay.studies.multihop.report import study_multihop
    from replay.studies.recovery.report import study_recovery
    from toolkit.errors import ThinkbackError
    from toolkit.imports import import_any, import_format, import_table
    from toolkit.imports.guessing.anything import log
    from toolkit.log import Log, describe_log, open_log, query_log, validate_log, write_log
    from toolkit.stats import Settings

if TYPE_CHECKING:  # not a name of the door
    from typing import Any

__all__ = [
    "Abandon", "Act", "Agreement", "AllOf", "AnyOf", "AtLeast", "Budget", "Calibration", "Conformal", "Graded",
    "Log", "LogReport", "Margin", "Metric", "Never", "Oracle", "Policy", "PolicyFile", "Prefix", "Prior", "Result",
    "Route", "Router", "Sample", "Says", "Settings", "StopRule", "StudyReport", "Suite", "ThinkbackError", "Threshold",
    "VerifierReport", "When", "Window", "budgets", "check_policies", "curves", "describe_log", "explain",
    "fit_gate", "fit_verifier", "frontier", "import_any", "import_format", "import_table", "load", "load_gate",
    "load_policies", "load_verifier", "log", "open_log", "plan", "query_log", "recommend", "report", "run",
    "simulate", "strategies", "study_buzz", "study_factcheck", "study_latent", "study_multihop", "study_recovery",
    "suite",    "surrogate_weights", "transfer_report", "tune", "validate_log", "write_log",
]  # fmt: skip

HOMES = {
    "Log": "toolkit.log",
    "LogReport": "replay.analyses.report.report",
    "Settings": "toolkit.stats",
    "StudyReport": "replay.studies.kit.report",
    "Suite": "replay.policies.suite",
    "ThinkbackError": "toolkit.errors",
    "VerifierReport": "replay.latent.report",
    "budgets": "replay.analyses.budgets.budgets",
    "check_policies": "replay.runs.result.run",
    "curves": "replay.runs.compare.curves",
    "describe_log": "toolkit.log",
    "fit_gate": "replay.gatefit.fit",
    "fit_verifier": "replay.latent.report",
    "frontier": "replay.analyses.strategies.frontier",
    "import_any": "toolkit.imports",
    "import_format": "toolkit.imports",
    "import_table": "toolkit.imports",
    "load_gate": "replay.policies.gate_file",
    "load_verifier": "replay.latent.verifier_file",
    "log": "toolkit.imports.guessing.anything",
    "open_log": "toolkit.log",
    "plan": "replay.analyses.plan.plan",
    "query_log": "toolkit.log",
    "recommend": "replay.analyses.recommend.recommend",
    "report": "replay.analyses.report.report",
    "simulate": "generate.simulation.grid",
    "strategies": "replay.analyses.strategies.strategies",
    "study_buzz": "replay.studies.buzz.report",
    "study_factcheck": "replay.studies.factcheck.report",
    "study_latent": "replay.studies.latent.report",
    "study_multihop": "replay.studies.multihop.report",
    "study_recovery": "replay.studies.recovery.report",
    "suite": "replay.policies.suite",
    "transfer_report": "replay.gatefit.report",
    "validate_log": "toolkit.log",
    "write_log": "toolkit.log",
}
"""Modules of the names that are not `replay`'s own."""


def __getattr__(name: str) -> Any:
    """Imports a name of the public interface when it is first asked for."""
    if name not in __all__:
        raise AttributeError(f"module `thinkback` has no attribute `{name}`; `dir(thinkback)` lists what it has")
    from importlib import import_module

    from thinkback.pickles import register
    from thinkback.shadowing import require_unshadowed

    require_unshadowed()
    value = getattr(import_module(HOMES.get(name, "replay")), name)
    register()
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
