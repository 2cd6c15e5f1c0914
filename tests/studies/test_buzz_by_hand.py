"""Numbers of the study of unfolding text on logs so small that they are worked out by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.studies.buzz import report
from tests.studies.multihop import cells
from tests.studies.test_buzz_planted import at, planted_stream


def test_macro_f1_of_texts_that_all_hold_an_error_is_of_two_labels(tmp_path: Path) -> None:
    """Three of four errors are refuted: F1 of `refuted` is 2 · 3 / (3 + 4) = 6/7, of `supported` 0; their mean 3/7."""
    found = report(planted_stream(tmp_path / "log", np.zeros(4, int), np.array([0, 0, 0, 1])))
    expected = pytest.approx(100 * 3 / 7)
    for table, row in (("table_1", ("first", "DIVER")), ("table_7", ("DIVER",))):
        heads = ("backbone", "method")[-len(row) :]
        assert at(cells(found, table, *heads)[row]["macro_f1"]) == expected, table
    assert at(cells(found, "table_9", "extraction", "revision")["CE-1", "REV-1"]["macro_f1"]) == expected
