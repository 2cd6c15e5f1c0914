"""`thinkback report`."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from toolkit.errors import ConflictError, NotFoundError, ThinkbackError, argument


def report(
    log: list[str],
    out: Path,
    mapping: str | None = None,
    settings: list[str] | None = None,
    policies: Path | None = None,
    baseline: str | None = None,
    where: str | None = None,
    rules: Path | None = None,
    strata: str | None = None,
    weigh: str | None = None,
    metric: str | None = None,
    measure: str | None = None,
    cost: str | None = None,
    prices: Path | None = None,
    width: str = "6.75in",
    seed: int = 0,
    resamples: int = 10_000,
    level: float = 0.95,
    workers: str | None = None,
    force: bool = False,
) -> None:
    """Write a report on a log, or on any file.

    A file is imported first: in its format where that is known, else by --map, else by a guess that is printed and kept
    as map.toml beside the report. Looks at the log, replays the standard suite (or --policies), and writes one page of
    findings as Markdown and as LaTeX that compiles, with the tables, the figures and the saved result beside it.
    """
    from replay.analyses.report.report import report as make
    from thinkback import console
    from toolkit.files import check_replaceable
    from toolkit.show import width_in_inches

    size = width_in_inches(width)
    check_replaceable(out, force, inputs=(*log, policies, rules, prices))
    address, text = _import_sources(log, mapping, settings or (), out)
    page = make(
        address, policies, where=where, baseline=baseline, rules=rules, strata=strata, weigh=weigh, metric=metric,
        measure=measure, cost=cost, prices=prices, seed=seed, resamples=resamples, level=level,
        workers=workers,
    )  # fmt: skip
    page.save(out, width=size, force=force)
    files = _keep_imported_log(out, address, text) if address != log[0] else ""
    for sentence in page.lead:
        _print_sentence(sentence)
    for section in page.sections:
        console.say()
        console.say(section.heading)
        for sentence in section.sentences:
            _print_sentence(f"- {sentence}")
    console.say()
    console.say(f"{out}/: report.md, report.tex, tables/, figures/, result/{files}")


def _import_sources(
    sources: Sequence[str], mapping: str | None, settings: Sequence[str], out: Path
) -> tuple[str, str | None]:
    """The log to report on, imported from the sources if these are files, and the guessed mapping's text, if any."""
    from thinkback import console
    from toolkit.imports import import_any
    from toolkit.imports.guessing.anything import CORRECTION, MAPPING
    from toolkit.work_places import scratch_folder

    options = [argument(name) for name, given in (("mapping", mapping), ("settings", settings)) if given]
    if _is_log(sources):
        if options:
            raise ConflictError(f"{options[0]} is for files, and `{sources[0]}` is a log: leave it out")
        return sources[0], None
    done = import_any(sources, Path(scratch_folder()) / "log", mapping=mapping, settings=settings, judged=True)
    if done.mapping is not None:
        for line in done.mapping.splitlines():
            console.say(line)
        console.say(CORRECTION.format(file=out / MAPPING))
    for note in done.report.lines():
        console.say(note)
    console.say()
    return str(done.report.log), done.mapping


def _is_log(sources: Sequence[str]) -> bool:
    """Whether the sources are a log, even a damaged one, and not files to import."""
    from toolkit.log import TABLES, open_log

    folder = Path(sources[0])
    if len(sources) == 1 and (folder / "report.md").is_file() and (folder / "log" / "manifest.json").is_file():
        raise NotFoundError(f"`{sources[0]}` is the folder of a report, whose log is `{folder / 'log'}`")
    if len(sources) == 1 and folder.is_dir():
        return any((folder / name).exists() for name in ("manifest.json", *TABLES))
    with suppress(ThinkbackError):
        return len(sources) == 1 and bool(open_log(sources[0]).shards)
    return False


def _keep_imported_log(out: Path, log: str, mapping: str | None) -> str:
    """Copies the imported log, and the mapping that made it, beside the report; returns their names as text."""
    import shutil

    from toolkit.imports.guessing.anything import MAPPING

    shutil.copytree(log, out / "log")
    if mapping is None:
        return ", log/"
    (out / MAPPING).write_text(mapping, encoding="utf-8")
    return f", log/, {MAPPING}"


def _print_sentence(sentence: str) -> None:
    from textwrap import wrap

    from thinkback import console
    from toolkit.printable import printable

    folded = wrap(printable(sentence), console.width(), subsequent_indent="  ", break_on_hyphens=False)
    for line in folded if console.on_terminal() else [sentence]:
        console.say(line)
