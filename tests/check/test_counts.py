"""Counts, their order and their rules."""

from __future__ import annotations

import json
import pickle

import pytest

from oneloop.check.counts import Counts, Rules
from oneloop.check.result import ERRORS, BadLine, Result


def counted() -> Counts:
    counts = Counts()
    for error in reversed(ERRORS):
        counts.add(Result(1, "http://a.example/", error=error))
    counts.add(BadLine(7, "x", "no scheme"))
    for status in (503, 200, 1000, 99, 404, 200):
        counts.add(Result(1, "http://a.example/", status=status))
    return counts


def test_statuses_come_by_number_then_classes() -> None:
    assert list(counted().as_dict()) == ["99", "200", "404", "503", "1000", *ERRORS, "bad_line"]
    assert counted().as_dict()["200"] == 2
    assert counted().total == 16
    assert counted().bad_lines == 1


def test_the_text_is_one_line_of_json() -> None:
    assert str(Counts()) == "{}"
    assert str(Counts({"200": 31})) == '{"200": 31}'
    assert json.loads(str(counted())) == counted().as_dict()


def test_counts_of_several_are_one() -> None:
    counts = counted()
    counts.merge(pickle.loads(pickle.dumps(counted())))
    counts.merge({"200": 1, "301": 2})
    assert counts.as_dict()["200"] == 5
    assert counts.as_dict()["301"] == 2
    assert counts != counted()
    assert Counts(counted().as_dict()) == counted()


def test_an_error_after_a_status_is_the_error() -> None:
    counts = Counts()
    counts.add(Result(1, "http://a.example/", status=302, error="too_many_redirects"))
    assert counts.as_dict() == {"too_many_redirects": 1}


@pytest.mark.parametrize(
    ("rules", "fails"),
    [
        ("5xx", True),
        ("2XX", True),
        ("4xx, 500", True),
        ("500", False),
        ("3xx", False),
        ("dns", True),
        (" bad_line ", True),
    ],
)
def test_rules(rules: str, fails: bool) -> None:
    assert counted().fails(Rules.parse(rules)) is fails
    assert Counts().fails(Rules.parse(rules)) is False


def test_every_class_is_a_rule() -> None:
    rules = Rules.parse(",".join(ERRORS))
    for error in ERRORS:
        assert Counts({error: 1}).fails(rules)
    assert not Counts({"200": 1, "bad_line": 1, "1000": 1}).fails(rules)
    assert not Counts({"5000": 1}).fails(Rules.parse("5xx"))
    assert not Counts({"200": 1, "404": 1, "bad_line": 1}).fails(Rules.parse("error"))
    assert Counts({"dns": 1}).fails(Rules.parse("error"))


def test_what_is_given_stays_as_it_is() -> None:
    given = {"200": 1}
    Counts(given).add(Result(1, "http://a.example/", status=200))
    assert given == {"200": 1}


@pytest.mark.parametrize("rules", ["", "5xx,", "dnss", "0xx", "5x", "99", "1000", "5xx;404", "٥xx"])
def test_what_is_no_rule_says_which_there_are(rules: str) -> None:
    with pytest.raises(ValueError, match=r"no rule .*5xx.*dns, connect, .*bad_line"):
        Rules.parse(rules)
