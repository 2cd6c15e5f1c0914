"""The Chromium in which tests, a benchmark and the manual's screenshots open pages."""

from __future__ import annotations

import os
import shutil

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-component-update",
    "--disable-background-networking", "--disable-sync", "--disable-dev-shm-usage",
)  # fmt: skip
PROGRAM = "THINKBACK_CHROMIUM"
"""The variable of the environment that names another."""


def chromium_program() -> str | None:
    """The program, None where there is none."""
    return os.environ.get(PROGRAM) or next(filter(None, map(shutil.which, NAMES)), None)
