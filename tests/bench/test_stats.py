"""The statistics on known data."""

from __future__ import annotations

import pytest

from bench.stats import Summary, overlap, pair_ratios, summarize


def test_median_range_and_quartiles_of_known_data() -> None:
    assert summarize([5, 1, 4, 2, 3]) == Summary(median=3, low=1, high=5, q1=2, q3=4, count=5)
    assert summarize([5, 1, 4, 2, 3]).spread == 2


def test_one_value_has_no_spread() -> None:
    assert summarize([7.0]) == Summary(7.0, 7.0, 7.0, 7.0, 7.0, 1)


def test_nothing_measured_is_an_error() -> None:
    with pytest.raises(ValueError, match="nothing was measured"):
        summarize([])


def test_ratios_are_taken_within_a_round() -> None:
    # The machine became twice as slow in the second round; the ratio did not.
    ours, theirs = [80.0, 160.0], [100.0, 200.0]
    assert pair_ratios(ours, theirs) == [0.8, 0.8]


def test_rounds_that_lack_one_side_give_no_ratio() -> None:
    assert pair_ratios([1.0, None, 3.0, 4.0], [2.0, 2.0, None, 0.0]) == [0.5]


def test_ranges_that_touch_agree() -> None:
    assert overlap(summarize([1.0, 2.0]), summarize([2.0, 3.0]))
    assert not overlap(summarize([1.0, 2.0]), summarize([2.1, 3.0]))
