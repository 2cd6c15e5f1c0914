"""What is learnt on a development split: priors, calibrated margins, conformal sets; and that it is never reported."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import replay
from generate.simulation.claims import simulate_claims
from replay.data.block import LogBlock
from replay.sampling.known import ORDERS
from replay.sampling.learned import PRIORS, Calibration, Conformal, Prior
from replay.sampling.orders import GeneratedTraces, RandomOrder, WalkSteps
from replay.sampling.surrogate import SurrogateOrder, surrogate_walk_steps
from tests import logs as small
from tests.errors import quotes, refuses, says
from tests.logs import drawn
from tests.seeds import seeds
from toolkit.log import Log, collect, write_log

FEATURES = ("claim_similarity", "evidence_similarity", "length")
DEV, TEST = "split = 'dev'", "split = 'test'"
COMMON = {"pool": "n8", "verifier": "lora", "max_traces": 8, "stop": replay.Margin()}


log = drawn(simulate_claims, "claimdecomp", traces=8, dev=120, opened=True)


def sample(name: str = "p", **keys: object) -> replay.Sample:
    return replay.Sample(name=name, **{**COMMON, **keys})  # type: ignore[arg-type]


def value(result: replay.Result, policy: str, metric: str) -> float:
    return result.summary.filter((pl.col("policy") == policy) & (pl.col("metric") == metric))["estimate"][0]


def surrogate(name: str, **keys: object) -> replay.Sample:
    return sample(name, order="surrogate", features=FEATURES, **keys)


@pytest.mark.parametrize("model", seeds(2, ["linear", "trees", "gp"]))
def test_priors_are_replayed_and_the_same_from_run_to_run(log: Log, model: str) -> None:
    policy = surrogate("prior", prior=Prior(model, DEV))  # type: ignore[arg-type]
    first = replay.run(log, policy, where=TEST, resamples=20).outcomes.collect()
    again = replay.run(log, policy, where=TEST, resamples=20, block_examples=64).outcomes.collect()
    assert first.equals(again)
    plain = replay.run(log, surrogate("prior"), where=TEST, resamples=20).outcomes.collect()
    assert not first.equals(plain)


def test_the_correction_is_the_update_on_the_residual() -> None:
    """A prior of 0.4 everywhere and a score of 0.97: w = (0.97 - 0.4) times the gain 36/97 phi of the plain update."""
    prior = Prior("linear", DEV, fit=lambda rows: np.full(len(rows), 0.4))
    state = surrogate_walk_steps(
        np.array([[0, 1, 0]], dtype=np.int32), np.array([[0.97, 0.1, 0.2]]), np.zeros((0, 1, 3)), np.array([3]),
        SurrogateOrder(mode="pool", prior=replace(prior)), keep_weights=True,
    )  # fmt: skip
    assert state.weights is not None
    gain = np.array([2 / 3, 1 / 2, 1]) * 36 / 97
    np.testing.assert_allclose(state.weights[0, 0], 0.57 * gain, rtol=1e-12)


def test_a_linear_prior_is_least_squares(log: Log) -> None:
    """Scores that are a line in the feature are foretold exactly."""
    from replay.engine.fitting import MODELS

    rng = np.random.default_rng(0)
    rows = rng.random((60, 2))
    predict = MODELS["linear"](rows, 0.2 + 0.5 * rows[:, 0] - 0.1 * rows[:, 1])
    new = rng.random((5, 2))
    np.testing.assert_allclose(predict(new), 0.2 + 0.5 * new[:, 0] - 0.1 * new[:, 1], atol=1e-8)


@pytest.mark.parametrize("model", ["linear", "trees", "gp"])
def test_priors_do_not_depend_on_the_units_of_features(model: str) -> None:
    """Characters or thousands of characters: what is foretold is the same, and it follows the feature."""
    from replay.engine.fitting import MODELS

    rng = np.random.default_rng(3)
    rows, new = rng.random((200, 2)), rng.random((100, 2))
    scores = 0.2 + 0.6 * rows[:, 0] + 0.02 * rng.standard_normal(200)
    scale, shift = np.array([1e5, 1e-3]), np.array([-4e4, 7.0])
    plain = MODELS[model](rows, scores)(new)
    scaled = MODELS[model](rows * scale + shift, scores)(new * scale + shift)
    np.testing.assert_allclose(scaled, plain, atol=1e-4)
    assert np.corrcoef(plain, new[:, 0])[0, 1] > 0.95


@pytest.mark.slow
def test_where_scores_curve_only_the_curved_priors_find_the_best_trace(tmp_path: Path) -> None:
    """score = (2x - 1)^2, right where it is the claim's highest: a line in x foretells nothing, a process and trees do.

    One of eight traces is verified, the one foretold best.
    """
    rng = np.random.default_rng(5)
    names = [f"{split}{i:02}" for split in ("dev", "test") for i in range(60)]
    x = rng.random((len(names), 8))
    score = (2 * x - 1) ** 2
    best = score.argmax(axis=1)
    rows = {
        n: [("A" if j == b else "B", float(s[j])) for j in range(8)] for n, b, s in zip(names, best, score, strict=True)
    }
    frames = small.tables({"p": rows}, dict.fromkeys(names, "A"), ["A", "B"])
    frames["examples"] = frames["examples"].with_columns(split=pl.col("example_id").str.head(-2))
    kept = frames["traces"].select("trace_id", "example_id")
    assert kept["example_id"].to_list() == [name for name in names for _ in range(8)]
    frames["features"] = kept.with_columns(x=pl.Series(x.reshape(-1)), noise=pl.Series(rng.random(x.size)))
    log = write_log(tmp_path / "log", name="curved", tables=frames)
    keys = {
        "pool": "p",
        "verifier": "v",
        "max_traces": 8,
        "order": "surrogate",
        "mode": "pool",
        "features": ("x", "noise"),
    }
    stop = replay.Budget(verifications=1)
    policies = [replay.Sample(name=m, prior=Prior(m, DEV), stop=stop, **keys) for m in PRIORS]  # type: ignore[arg-type]
    result = replay.run(log, policies, where=TEST, resamples=5)
    assert value(result, "linear", "accuracy") < 0.5
    assert value(result, "trees", "accuracy") > 0.75
    assert value(result, "gp", "accuracy") > 0.9


def test_the_upper_confidence_order_prefers_what_is_unlike_the_seen() -> None:
    """Two traces like the first and one unlike it: the bonus picks the unlike one next, plain prediction the like."""
    feature = np.array([[[1.0, 1.0, -1.0]]])
    code, score = np.zeros((1, 3), dtype=np.int32), np.array([[0.5, 0.5, 0.5]])
    plain = surrogate_walk_steps(code, score, feature, np.array([3]), SurrogateOrder(("f",), mode="pool"))
    bold = surrogate_walk_steps(code, score, feature, np.array([3]), SurrogateOrder(("f",), mode="pool", bonus=2.0))
    assert plain.at[0, :3].tolist() == [0, 1, 2]
    assert bold.at[0, :3].tolist() == [0, 2, 1]


@pytest.mark.parametrize("method", seeds(1, ["isotonic", "platt"]))
def test_calibrated_scores_decide_the_margin_and_raw_ones_the_answer(log: Log, method: str) -> None:
    """A monotone map leaves best-of-N as it is where nothing stops, and changes when the rule holds."""
    calibration = Calibration(method, DEV)  # type: ignore[arg-type]
    never = replay.Margin(1e9, single_label=99)
    pair = [sample("raw", stop=never), sample("calibrated", stop=never, calibration=calibration)]
    wide = replay.run(log, pair, where=TEST, resamples=20)
    assert value(wide, "raw", "accuracy") == value(wide, "calibrated", "accuracy")
    stops = [sample("raw"), sample("calibrated", calibration=calibration)]
    result = replay.run(log, stops, where=TEST, resamples=20)
    assert value(result, "raw", "traces") != value(result, "calibrated", "traces")


def test_platt_recovers_a_logistic_curve(log: Log) -> None:
    from replay.engine.fitting import _fit_platt

    rng = np.random.default_rng(1)
    scores = rng.random(200_000)
    right = (rng.random(len(scores)) < 1 / (1 + np.exp(-(4 * scores - 1)))).astype(float)
    at = np.array([[0.1], [0.5], [0.9]])
    np.testing.assert_allclose(_fit_platt(scores, right)(at), 1 / (1 + np.exp(-(4 * at[:, 0] - 1))), atol=0.01)


def test_conformal_sets_cover_and_shrink(log: Log) -> None:
    alphas = (0.05, 0.2, 0.4)
    policies = [sample(f"{a}", conformal=Conformal(a, DEV, abstain=True)) for a in alphas]
    result = replay.run(log, [sample("plain"), *policies], where=TEST, resamples=20)
    sizes = [value(result, f"{a}", "set_size") for a in alphas]
    cover = [value(result, f"{a}", "coverage") for a in alphas]
    assert sizes == sorted(sizes, reverse=True)
    assert cover == sorted(cover, reverse=True)
    assert all(c >= 1 - a - 0.1 for a, c in zip(alphas, cover, strict=True))  # 120 claims learn, 200 are reported
    outcomes = result.outcomes.collect().filter(pl.col("policy") == "0.4")
    answered = outcomes.filter(pl.col("answered") == 1)
    assert answered["set_size"].to_list() == [1.0] * len(answered)
    assert outcomes.filter(pl.col("answered") == 0)["answer"].null_count() == len(outcomes) - len(answered)
    assert value(result, "0.4", "accuracy_answered") == pytest.approx(answered["correct"].mean())
    assert "set_size" not in replay.run(log, sample(), where=TEST, resamples=5).outcomes.collect().columns


def test_credit_of_an_abstention_is_that_of_any_null_prediction(log: Log, tmp_path: Path) -> None:
    """The chosen trace of a null prediction is the first, and its credit the policy's."""
    traces = collect(log.scan("traces"), log)
    graded = traces.with_columns(credit=(pl.col("sample_index") / 8).cast(pl.Float32))
    conformal = Conformal(0.4, DEV, abstain=True)
    rows = replay.run(
        changed(log, tmp_path, traces=graded), sample(conformal=conformal), where=TEST, resamples=5
    ).outcomes.collect()
    assert rows.filter(pl.col("answered") == 0)["credit"].unique().to_list() == [0.0]
    assert rows.filter(pl.col("answered") == 1)["credit"].max() > 0


def test_thresholds_by_hand() -> None:
    """Nine gold scores 0.1 ... 0.9 and alpha 0.25: k = floor(0.25 * 10) = 2, so the threshold is the second, 0.2."""
    from replay.data.block import LoggedPool, Scores
    from replay.engine.sets import fit_conformal

    n = 9
    score = np.linspace(0.1, 0.9, n)[:, None]
    examples = pl.DataFrame({"example_id": [f"e{i}" for i in range(n)], "labels": [["A"]] * n, "gold": ["A"] * n})
    zero = np.zeros((n, 1))
    costs = dict.fromkeys(
        ("finalizers", "truncated", "prompt_tokens", "completion_tokens", "latency_s", "device_s"), zero
    )
    scores = Scores(score, zero, dict.fromkeys(("verification_tokens", "latency_s", "device_s"), zero))
    ones = np.ones(n, dtype=np.int32)
    code = np.zeros((n, 1), dtype=np.int32)
    pool = LoggedPool("n8", ones, 0 * ones, code, code, costs, zero + 1, zero, 0 * ones, {"lora": scores}, {})
    block = LogBlock(examples, pl.Series(["A"]), {"n8": pool}, {}, np.zeros((0, 2), dtype=int))
    policy = sample(max_traces=1, stop=replay.Never())
    walk, cutting = policy.walks()[0], policy.stop_conditions(block)
    assert fit_conformal(block, walk, cutting, Conformal(0.25, DEV)).fit == pytest.approx({"A": 0.2})
    assert fit_conformal(block, walk, cutting, Conformal(0.05, DEV)).fit == {"A": -np.inf}


@pytest.mark.parametrize(
    ("keys", "refusal"),
    [
        ({"order": "surrogate", "features": FEATURES, "prior": Prior("linear", DEV)}, ("leakage", "`prior.on`")),
        ({"calibration": Calibration("platt", DEV)}, ("leakage", "`calibration.on`")),
        ({"conformal": Conformal(0.1, DEV)}, ("leakage", "`conformal.on`")),
    ],
)
def test_a_development_split_that_is_reported_is_refused(log: Log, keys: dict, refusal: tuple[str, ...]) -> None:
    with refuses(*refusal) as error:
        replay.run(log, sample("mine", **keys), resamples=5)
    says(error.value, "leakage", "120")
    assert "`mine`" in str(error.value)


@pytest.mark.parametrize(
    ("keys", "refusal"),
    [
        ({"order": "surrogate", "features": FEATURES, "prior": Prior("linear", DEV)}, ("leakage", "`prior.on`")),
        ({"calibration": Calibration("platt", "split = 'dev' AND example_id < 'zz'")}, ("leakage", "`calibration.on`")),
    ],
)
def test_thresholds_on_rows_that_were_fitted_on_are_refused(log: Log, keys: dict, refusal: tuple[str, ...]) -> None:
    """A model remembers the scores of its own rows, so thresholds set there cover too little elsewhere."""
    with refuses(*refusal) as error:
        replay.run(log, sample("mine", conformal=Conformal(0.2, DEV), **keys), where=TEST, resamples=5)
    says(error.value, "leakage", "`conformal.on`", "'dev'", "120")
    assert "`mine`" in str(error.value)


def test_thresholds_on_rows_of_their_own_are_served(log: Log) -> None:
    ids = sorted(collect(log.scan("examples", ["example_id", "split"]), log).filter(split="dev")["example_id"])
    low, high = (f"split = 'dev' AND example_id {sign} '{ids[60]}'" for sign in ("<", ">="))
    policy = sample(calibration=Calibration("platt", low), conformal=Conformal(0.2, high))
    assert 0.6 < value(replay.run(log, policy, where=TEST, resamples=5), "p", "coverage") <= 1


def changed(log: Log, folder: Path, **tables: pl.DataFrame) -> Log:
    """The same log with other tables."""
    names = ("examples", "traces", "verifications", "features")
    whole = {name: collect(log.scan(name), log) for name in names}
    return write_log(folder / "log", name="changed", tables=whole | tables)


def test_clusters_shared_with_the_reported_examples_are_refused(log: Log, tmp_path: Path) -> None:
    examples = collect(log.scan("examples"), log)
    number = pl.int_range(pl.len()) % 50
    mixed = changed(log, tmp_path, examples=examples.with_columns(cluster=pl.format("c{}", number)))
    policy = sample("mine", calibration=Calibration("platt", DEV))
    with refuses("leakage", "`calibration.on`", "`c0`", "50"):
        replay.run(mixed, policy, where=TEST, resamples=5)
    with refuses("leakage", "`on`", "50"):
        replay.tune(mixed, [sample()], on=DEV, report=TEST, goal="min traces", resamples=5)
    apart = changed(log, tmp_path / "apart", examples=examples.with_columns(cluster=pl.col("split")))
    assert replay.run(apart, policy, where=TEST, resamples=5).statistics.n == 200


def test_calibration_is_fitted_on_the_measure_of_the_run(log: Log, tmp_path: Path) -> None:
    """Without `correct`, a log that is judged by `graded` gives what it gives when that column is `correct`."""
    traces = collect(log.scan("traces"), log)
    graded = traces.with_columns(graded=pl.col("correct").cast(pl.Float64), correct=pl.lit(None, pl.Boolean))
    other = changed(log, tmp_path, traces=graded)
    policy = sample(calibration=Calibration("platt", DEV))
    found = replay.run(other, policy, where=TEST, measure="graded", resamples=5)
    assert value(found, "p", "traces") == value(replay.run(log, policy, where=TEST, resamples=5), "p", "traces")
    middle = collect(log.scan("examples", ["example_id", "split"]), log).filter(split="test")["example_id"].sort()[100]
    on, report = (f"split = 'test' AND example_id {sign} '{middle}'" for sign in ("<", ">="))
    tuned = replay.tune(other, [policy], on=on, report=report, goal="min traces", measure="graded", resamples=5)
    assert tuned.tried == 1


def test_traces_that_a_prior_leaves_out_for_a_null_feature_are_counted(log: Log, tmp_path: Path) -> None:
    """`length` is null for all traces of 30 development examples, `claim_similarity` for one trace of another."""
    valid = collect(log.scan("traces"), log).filter(pl.col("answer").is_not_null()).sort("trace_id")
    scored = valid.join(collect(log.scan("verifications"), log), on="trace_id", how="semi")
    dev = collect(log.scan("examples", ["example_id", "split"]), log).filter(split="dev")["example_id"].sort()
    without, one = dev[:30], scored.filter(example_id=dev[30])["trace_id"][0]
    lost = scored.filter(pl.col("example_id").is_in(without.implode()))
    features = collect(log.scan("features"), log).join(
        valid.select("trace_id", e="example_id"), on="trace_id", how="left"
    )
    changes = [
        pl.when(~pl.col("e").is_in(without.implode())).then("length").alias("length"),
        pl.when(pl.col("trace_id") != one).then("claim_similarity").alias("claim_similarity"),
    ]

    def told(*changes: pl.Expr, policies: list[replay.Policy]) -> list[str]:
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        other = changed(log, folder, features=features.with_columns(*changes).drop("e"))
        notes = replay.run(other, policies, where=TEST, resamples=5).notes
        return [note.text for note in notes if note.code == "prior_left_out"]

    priors = [surrogate(model, prior=Prior(model, DEV)) for model in ("linear", "trees")]  # type: ignore[arg-type]
    found = told(*changes, policies=[*priors, thinking_again("when", 0.5)])
    (both,), (one,) = found, told(changes[1], policies=priors[:1])
    quotes(both, "`linear`, `trees`, `when`: ", f"{len(lost) + 1} traces", "31 of the 120")
    quotes(both, "`claim_similarity`, `length`")
    quotes(one, "`linear`: 1 trace", " 1 of the 120", "`claim_similarity`")
    assert "`length`" not in one
    assert told(policies=priors) == []


def thinking_again(name: str, below: float) -> replay.When:
    """A surrogate's base, fitted before, and best of eight where the lead of its best answer is small enough."""
    base = surrogate(f"{name}: base", prior=Prior("linear", DEV), stop=replay.Budget(verifications=2))
    then = sample(f"{name}: then", stop=replay.Never())
    return replay.When(name=name, base=base, gate=replay.Threshold(signal="margin", below=below), then=then)


def test_parts_are_fitted_and_what_both_branches_need_is_paid_once(log: Log) -> None:
    """A lead is at least -1 and at most 1, so the first gate never fires and the second always does.

    Best of eight generates and verifies all that the surrogate's base does, so always firing costs what it costs.
    """
    alone = [thinking_again("x", 0.0).base, sample("eight", stop=replay.Never())]
    result = replay.run(log, [*alone, thinking_again("never", -2.0), thinking_again("always", 2.0)], where=TEST)
    columns = ["correct", "answer", "traces", "verifications", "total_tokens"]
    frame = {name: rows.select(columns) for (name,), rows in result.outcomes.collect().group_by("policy")}
    assert frame["never"].equals(frame["x: base"])
    assert frame["always"].drop("total_tokens").equals(frame["eight"].drop("total_tokens"))
    np.testing.assert_allclose(frame["always"]["total_tokens"], frame["eight"]["total_tokens"], rtol=1e-12)
    assert frame["x: base"]["traces"].mean() < 8
    with refuses("leakage", "`never: base`", "`prior.on`"):
        replay.run(log, thinking_again("never", -2.0), resamples=5)


def test_a_part_makes_no_prediction_sets() -> None:
    inner, plain = sample("inner", conformal=Conformal(0.1, DEV)), sample("plain")
    with refuses("unsuitable", "`then`", "`conformal`"):
        replay.When(name="w", base=plain, gate=replay.Threshold(signal="invalid", at_least=1.0), then=inner)
    with refuses("unsuitable", "`base`", "`conformal`"):
        replay.Oracle(name="o", rule="matched_random", base=inner, then=plain, rate=0.5)


def test_a_condition_that_matches_nothing_is_refused(log: Log) -> None:
    with refuses("empty", "`p`", "`calibration.on`"):
        replay.run(log, sample(calibration=Calibration("platt", "split = 'x'")), where=TEST, resamples=5)
    with refuses("invalid", "`p`", "`calibration.on`"):
        replay.run(log, sample(calibration=Calibration("platt", "splt = 'x'")), where=TEST, resamples=5)


def test_weights_can_be_studied(log: Log) -> None:
    policy = surrogate("s", mode="pool")
    frame = replay.surrogate_weights(log, policy, where=TEST)
    assert frame.columns == [
        "example_id", "step", "sample_index", "score", *FEATURES, "vote_ratio", "label_score", "constant",
    ]  # fmt: skip
    last = frame.group_by("example_id").agg(pl.col("step").max())
    outcomes = replay.run(log, replace(policy, stop=replay.Never()), where=TEST, resamples=5).outcomes.collect()
    assert last["step"].sum() == outcomes["verifications"].sum()
    with refuses("unsuitable", "`p`", "`generation`"):
        replay.surrogate_weights(log, sample())


def test_weights_of_another_order_can_be_studied(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """An order says itself whether it learns, and how its weights are called."""

    class Counting(RandomOrder):
        weight_names = ("steps",)

        def steps_with_weights(self, traces: GeneratedTraces) -> WalkSteps:
            steps = self.walk_steps(traces)
            return replace(steps, weights=np.cumsum(np.ones((*steps.at.shape, 1)), axis=1))

    monkeypatch.setitem(ORDERS, "random", Counting)
    frame = replay.surrogate_weights(log, sample(order="random"), where=TEST)
    assert frame["steps"].to_list() == frame["step"].to_list()


def test_weights_of_examples_that_cannot_be_read_are_left_out_and_counted(log: Log, tmp_path: Path) -> None:
    """One example lacks a score, another a feature: no zero takes their place, and a run leaves out the same two."""
    policy = surrogate("s", mode="pool", stop=replay.Never())
    traces = collect(log.scan("traces"), log).filter(pl.col("answer").is_not_null()).sort("trace_id")
    first, second = (traces.filter(pl.col("example_id") == e)["trace_id"][0] for e in traces["example_id"].unique()[:2])
    scores, features = collect(log.scan("verifications"), log), collect(log.scan("features"), log)
    hole = pl.when(pl.col("trace_id") != second).then("length").alias("length")
    scores = scores.filter(pl.col("trace_id") != first)
    holes = changed(log, tmp_path, verifications=scores, features=features.with_columns(hole))
    with pytest.warns(UserWarning, match="320"):
        frame = replay.surrogate_weights(holes, policy)
    excluded = set(replay.run(holes, policy, resamples=5).excluded)
    assert len(excluded) == 2
    whole = replay.surrogate_weights(log, policy)
    assert frame.equals(whole.filter(~pl.col("example_id").is_in(list(excluded))))
    none = changed(log, tmp_path / "none", features=features.with_columns(length=pl.lit(None, pl.Float64)))
    with refuses("unsuitable", "320"):
        replay.surrogate_weights(none, policy)


def test_seconds_of_the_surrogate_are_told(log: Log) -> None:
    result = replay.run(log, [surrogate("s"), sample("plain")], where=TEST, resamples=5)
    told = result.provenance["surrogate_s_per_example"]
    assert list(told) == ["s"]
    assert 0 < told["s"] < 1


def test_explanations_show_what_is_learnt(log: Log) -> None:
    """The prediction set is that of the run, and scores are shown as calibration and surrogate read them."""
    sets = sample("sets", conformal=Conformal(0.2, DEV, abstain=True))
    calibrated = sample("calibrated", calibration=Calibration("platt", DEV))
    fitted = surrogate("fitted", prior=Prior("linear", DEV))
    outcomes = replay.run(log, [sets, calibrated, fitted], where=TEST, resamples=2).outcomes.collect()
    for row in outcomes.filter(policy="sets").head(3).to_dicts():
        told = replay.explain(log, sets, "sets", row["example_id"])
        stage = told.stages[-1]
        assert stage.rows["in set"].sum() == row["set_size"]
        assert told.outcomes.to_dicts() == [row]
        assert re.search(r"\bnot answer$", stage.ending) is None or row["answered"] == 0
        assert (re.search(r"\bnot answer$", stage.ending) is None) == (row["answered"] == 1)
    example = row["example_id"]
    steps = replay.explain(log, calibrated, "calibrated", example).steps
    assert steps["calibrated"].is_between(0, 1).all()
    assert (steps["score"] != steps["calibrated"]).all()
    predicted = replay.explain(log, fitted, "fitted", example).steps["predicted"]
    assert predicted[0] is None  # step 0 generates
    assert predicted[1:].is_between(0, 1).all()
