"""The study of fact checking under a verifier budget: everything that it computes on a log, laid out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from replay.data.conditions import matching
from replay.data.contents import opened
from replay.studies.factcheck.appendix import APPENDIX, COSTS, MEANS
from replay.studies.factcheck.around import surroundings
from replay.studies.factcheck.budgets.budget_tables import FIXED_KEYS, FOUND, ORDERS
from replay.studies.factcheck.budgets.method_tables import PAIRED, PREDICTION_SETS, VARIANTS
from replay.studies.factcheck.budgets.sensitivity import SETTINGS, SETTINGS_OF_KEYS
from replay.studies.factcheck.calibration import CALIBRATION
from replay.studies.factcheck.figures import figures, undone
from replay.studies.factcheck.methods.cases import cases_csv, cases_markdown, cases_told
from replay.studies.factcheck.published import FactcheckSetting
from replay.studies.factcheck.published import published as numbers_of
from replay.studies.factcheck.record import record, replayed
from replay.studies.factcheck.study import Study, study_log
from replay.studies.factcheck.tables import MAIN_TABLES
from replay.studies.kit.choices import choose, datasets_without, own_pools, pools_of, refuse_none_left, reported
from replay.studies.kit.gaps import said_of, told_left_out
from replay.studies.kit.layout import tables_of
from replay.studies.kit.report import StudyReport, record_of
from toolkit.arguments import checks_arguments
from toolkit.errors import ThinkbackError, argument, shown
from toolkit.features import CLAIM_FEATURES
from toolkit.log import TAKES, AnyLog
from toolkit.show import WIDTH, inches

SHEETS = (
    *MAIN_TABLES, *APPENDIX, FIXED_KEYS, *ORDERS, *FOUND, COSTS, PAIRED, SETTINGS, SETTINGS_OF_KEYS, MEANS, VARIANTS,
    PREDICTION_SETS, *CALIBRATION,
)  # fmt: skip
"""All tables, in the order of the report."""
SCREEN = ("table_5_2", "table_5_3", "table_5_6")
"""Those that the terminal shows."""
USUAL_VERIFIER = "lora"
CAPS_TAKEN = "integers of at least 1, such as 15,20,30,40"


@checks_arguments(log=TAKES, caps="a list of integers", features="a list of columns of features")
def study_factcheck(
    log: AnyLog,
    *,
    published: Sequence[str] | str = (),
    pool: str | None = None,
    verifier: str | None = None,
    other_verifier: str | None = None,
    features: Sequence[str] = (),
    cap: int = 15,
    caps: Sequence[int] = (15, 20, 30, 40),
    orders: int = 10,
    random_seed: int = 20,
    dev: str | None = None,
    where: str | None = None,
    seed: int = 0,
    resamples: int = 10_000,
    level: float = 0.95,
    kw: float = 0.25,
    eur_per_kwh: float = 0.25,
    width: str | float = WIDTH,
) -> StudyReport:
    """Every table and figure of the thesis on fact checking under a verifier budget, for a log with class labels.

    Rows are of a data set each. `published` names data sets whose published numbers stand beside theirs: `quantemp`,
    `claimdecomp`. `pool` is by default the only one of each data set, `verifier` the only one, or `lora` where there
    is one; `other_verifier` is that of tables 5.8 to 5.10. `cap` is the number of traces a claim, `caps` those of
    tables 5.11 to 5.13; `orders` random orders are averaged over in the table `orders`. `where` chooses the claims
    that are reported, by default those of the test split where there is one, and `dev` those to learn from. Figures
    are `width` wide.

    Raises ThinkbackError where the log has no claims with labels, no verifier that scores each trace alone, or for
    anything wrong with the settings.
    """
    drawn = inches(width)
    known = [numbers_of(name) for name in ([published] if isinstance(published, str) else published)]
    made, contents = opened(log)
    if not caps or min(caps) < 1:
        raise ThinkbackError(f"{argument('caps')} is {shown(list(caps))}; it takes {CAPS_TAKEN}")
    if orders < 1:
        raise ThinkbackError(f"{argument('orders')} is {orders}; it takes an integer of at least 1")
    if verifier is None and USUAL_VERIFIER in contents.verifiers:
        verifier = USUAL_VERIFIER
    if dev is not None:
        matching(made, dev, "dev")  # its own mistakes are told before those of a condition made of it
    by_default = reported(made, dev) if where is None else None
    if dev is not None and by_default is not None:
        refuse_none_left(made, by_default, dev)
    where = by_default if where is None else where
    if other_verifier is not None and other_verifier == verifier:
        raise ThinkbackError(
            f"{argument('other_verifier')} is `{verifier}`, the verifier itself: name another one, or leave it out"
        )
    pools = {} if pool is not None else own_pools(made, where, contents.pools)
    asked = pools_of(made, where, contents.pools) if pool is None else contents.pools
    setting = FactcheckSetting(
        pool=next(iter(pools.values())) if pools else choose(pool, asked, "pool"),
        verifier=choose(verifier, contents.verifiers, "verifier"),
        features=tuple(features) or tuple(name for name in CLAIM_FEATURES if name in contents.features),
        cap=cap,
        random_seed=random_seed,
        asked={
            "where": where, "resamples": resamples, "level": level, "seed": seed, "kw": kw, "eur_per_kwh": eur_per_kwh
        },
        other_verifier=None if other_verifier is None else choose(other_verifier, contents.verifiers, "verifier"),
        caps=tuple(dict.fromkeys(caps)),
        orders=orders,
        dev=dev,
    )  # fmt: skip
    without = datasets_without(made, where, setting.pool) if pool is not None else ()
    lacking = [f"data set `{name}` has no traces in pool `{pool}`, so it is left out" for name in without]
    found = report_of(study_log(made, setting, known, pools, without), made.name, drawn, lacking)
    said = [] if by_default is None else [f"reported are the claims of {by_default}, since no condition names others"]
    return replace(found, told=[*said, *lacking, *found.told])


def report_of(studies: Sequence[Study], name: str, width: float = WIDTH, lacking: Sequence[str] = ()) -> StudyReport:
    """What was found on each data set of a log, laid out; `lacking` says which data sets are left out."""
    simulated = studies[0].simulated
    tables = tables_of(SHEETS, studies, surroundings(studies, name))
    own = [replace(study, setting=replace(study.setting, published=None)) for study in studies]
    screen = tables_of((sheet for sheet in SHEETS if sheet.name in SCREEN), own, surroundings(own, name))

    cases = [(study.dataset, study.cases) for study in studies]

    def after(study: Study) -> str:
        return f", {study.dataset}" if len(studies) > 1 else ""

    return StudyReport(
        title=f"Fact checking under a verifier budget: {name}{' (simulated)' if simulated else ''}",
        tables=tables,
        draw=lambda: figures(studies, width),
        words={
            "What was replayed": said_of(studies, replayed),
            **{f"Notes{after(one)}": [str(note) for note in one.notes] for one in studies},
            "What could not be done": [*lacking, *said_of(studies, undone)],
        },
        record=record_of("factcheck", studies, record),
        left_out={f"{run}{after(one)}": why for one in studies for run, why in one.left_out.items()},
        left_out_by="comparison",
        files={"cases.csv": cases_csv(cases, simulated)},
        after=cases_markdown(cases, simulated),
        paper={"Example cases": list(cases_told(cases))},
        told=said_of(studies, lambda study: told_left_out(study.left_out.get("main", {}))),
        screen=[screen[sheet] for sheet in SCREEN],  # a terminal has no room for three numbers in place of one
        simulated=simulated,
        parts=studies,
    )
