"""`thinkback fit`."""

from __future__ import annotations

from pathlib import Path


def fit(recipe: str, on: Path, out: Path, settings: list[str] | None = None, force: bool = False) -> None:
    """Train a verifier on a log.

    It is a sequence classifier that says how likely a trace is right, or worth revising. Examples are split in two; the
    epoch that is best on the held-out ones is kept. A [[verify]] of the kind "classifier" scores any log with it.
    """
    from generate.classifier.classifier_fitting import fit_classifier
    from generate.classifier.classifier_recipe import load_training
    from thinkback import console
    from toolkit.log import open_log
    from toolkit.progress import Advance, progress

    read, log = load_training(recipe, settings or ()), open_log(on)
    with progress(f"training {read.name}", 1, "rows") as advance:
        # the number of rows is known once they are read, so the bar counts in shares of one
        def started(total: int) -> Advance:
            return lambda done=1, tokens=0: advance(done / total, tokens)

        done = fit_classifier(log, read, out, say=console.say, started=started, force=force)
    if done.both_sides:
        console.say(
            f"warning: {done.both_sides:,} questions have traces in training and in validation, whose measures then say"
            ' little about other questions; `split = "question"` holds out whole ones'
        )
    right, wrong = ("repaired", "not") if read.training.target.startswith("fix:") else ("right", "wrong")
    for name, count in done.counts.items():
        there = f"{count['right']:,} {right} and {count['wrong']:,} {wrong}"
        console.say(f"{name}: {sum(count.values()):,} traces, {there}")
    best = done.epochs[done.best - 1]
    left = f"; {done.too_long:,} were longer than the model takes" if done.too_long else ""
    console.say(f"learned from {done.rows:,} traces, {done.positive:.1%} of the labels positive{left}")
    console.say(
        f"wrote {out}: epoch {done.best}, on {done.dev_rows:,} held-out traces AUPRC {best.auprc:.3f},"
        f" AUROC {best.auroc:.3f}, accuracy {best.accuracy:.3f}"
    )
