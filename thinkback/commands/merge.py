"""`thinkback merge`."""

from __future__ import annotations

from pathlib import Path


def merge(logs: list[str], out: Path, name: str | None = None, compression: int = 3, force: bool = False) -> None:
    """Merge logs into a new one.

    Of rows with the same key the first is kept, in the order of the logs given; the others are counted.
    """
    from thinkback import console
    from toolkit.errors import counted
    from toolkit.files import check_replaceable, move_into_parent, replacing
    from toolkit.log import merge_logs, open_log

    check_replaceable(out, force, inputs=logs)
    with replacing(out, force) as folder:
        report = merge_logs(logs, folder / "log", name=name or out.resolve().name, compression=compression)
        move_into_parent(folder / "log")
    for table, dropped in report.dropped.items():
        if not dropped:
            continue
        strays, total = report.strays[table], f"{table}: {counted(dropped, 'row')} dropped"
        keys = "an earlier log has the same keys"
        other = (
            "an earlier log has another trace under the trace's id or in its place (example, pool, index), with"
            " another answer, verdict, text, model or number of tokens"
        )
        why = other if strays == dropped else f"of {dropped - strays:,} {keys}; of {strays:,} {other}"
        console.say(f"warning: {total}: {why}" if strays else f"{total}: {keys}")
    for verifier in report.differing:
        console.say(
            f"warning: `{verifier}` is not the same verifier in all of these logs, and one in the merged log: policies "
            "and AUCs put its scores together"
        )
    merged = open_log(out)
    console.say(f"wrote {out}: " + ", ".join(f"{table} {merged.rows(table):,}" for table in merged.shards))
