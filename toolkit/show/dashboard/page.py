"""The HTML document of a dashboard: markup, style, scripts, Vega and data, under a security policy that allows nothing
else.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from string import Template
from typing import Any

from toolkit.errors import PackageError

SCRIPTS = (
    "rounding", "base", "state", "outcomes", "table", "copies", "marks", "charts", "labels", "sweeps", "plane",
    "differences", "headroom", "play", "texts", "picture", "rows", "examples", "against", "page",
)  # fmt: skip
"""The page's own scripts in their order: one text, since later parts use earlier ones."""
FIRST = "drawFirst();"
CALL = "drawCharts();"


@dataclass(frozen=True, eq=False)
class PageData:
    """The data of a dashboard: of each result what is read first as plain data, the packed rest of it, its packed
    outcomes and examples; the packed comparison of two results, if any; and the folder of the texts.
    """

    title: str
    results: Sequence[Any]
    rest: Sequence[str]
    outcomes: Sequence[str]
    examples: Sequence[str]
    pairs: Sequence[str]
    texts: str | None


def dashboard_page(page: PageData) -> str:
    """The whole dashboard as one HTML document. Raises ThinkbackError where altair is not installed."""
    import_altair()
    from toolkit.show.dashboard.charts import charts

    script = _page_scripts()
    vega, style = vega_script(), read_asset("page.css")
    blocks = "\n".join(
        f'<script type="application/octet-stream" id="{name}-{number}">{text}</script>'
        for name, packed in (
            ("rest", page.rest),
            ("outcomes", page.outcomes),
            ("examples", page.examples),
            ("pair", page.pairs),
        )
        for number, text in enumerate(packed)
    )
    return Template(read_asset("page.html")).substitute(
        policy=html.escape(_security_policy((script, vega, CALL), style, page.texts is not None)),
        title=html.escape(page.title), style=style, files=html.escape(page.texts or ""),
        maker=f"Made by thinkback {version('thinkback')} from saved results. It loads nothing from elsewhere.",
        results=script_json(page.results), charts=script_json(charts()), script=script, packed=blocks, vega=vega,
    )  # fmt: skip


def _security_policy(scripts: Sequence[str], style: str, texts: bool) -> str:
    """The page's content security policy: only its own inline parts, by their hashes, and the files of texts are
    allowed.
    """
    allowed = " ".join(map(text_hash, scripts)) + " 'self'" * texts
    return (
        f"default-src 'none'; script-src {allowed}; style-src {text_hash(style)}; img-src 'none'; connect-src 'none'; "
        "base-uri 'none'; form-action 'none'"
    )


def _page_scripts() -> str:
    return "\n".join(['"use strict";', *(read_asset(f"{name}.js") for name in SCRIPTS), FIRST])


def import_altair() -> None:
    """Raises ThinkbackError where altair, or the package that inlines Vega, is not installed."""
    try:
        import altair  # noqa: F401
        import vl_convert  # noqa: F401
    except ImportError:
        needed = "a dashboard needs the packages altair and vl-convert-python"
        raise PackageError(f"{needed}: pip install 'thinkback[dashboard]'") from None


@cache
def vega_script() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script, whose names stay inside it."""
    import vl_convert

    bundle = vl_convert.javascript_bundle()
    return "(() => {" + bundle.replace("</script", "<\\/script").replace("<!--", "<\\!--") + "\n})();"


def markup_size() -> int:
    """The bytes of the page's own markup, style, scripts and charts, about."""
    from toolkit.show.dashboard.charts import charts

    return sum(map(len, (read_asset("page.html"), read_asset("page.css"), _page_scripts(), script_json(charts()))))


def script_json(data: Any) -> str:
    """Data as JSON that is safe inside a script element: `<` and signs beyond ASCII are escaped."""
    return _compact_json(data).replace("<", "\\u003c")


def compressed_json(data: Any) -> str:
    """Data as compressed JSON in base64, which the browser unpacks when it is first shown."""
    return base64.b64encode(zlib.compress(_compact_json(data).encode("ascii"), 9)).decode("ascii")


def texts_file(result: int, file: int, texts: Any) -> str:
    """The script file that brings the texts of some examples of a result, by the examples' numbers."""
    return f"thinkbackTexts({result},{file},{script_json(texts)});\n"


def _compact_json(data: Any) -> str:
    return json.dumps(data, allow_nan=False, separators=(",", ":"), ensure_ascii=True)


def text_hash(text: str) -> str:
    """A text's hash as a security policy names it."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode('utf-8')).digest()).decode('ascii')}'"


def read_asset(name: str) -> str:
    """The text of a file of the page's own."""
    return (files("toolkit.show.dashboard") / "assets" / name).read_text(encoding="utf-8")
