"""What the standard library's functions take as a timeout."""

from __future__ import annotations

import math
import operator
import sys
from threading import TIMEOUT_MAX
from typing import Any

__all__ = ["checked_seconds", "real_number"]

# Since Python 3.15 a Decimal and a Fraction are numbers too.
_TAKES_REAL_NUMBERS = sys.version_info >= (3, 15)


def checked_seconds(seconds: Any) -> float:
    """Return a number of seconds, which may be negative.

    Raises:
        TypeError: it is no number.
        ValueError: it is NaN.
        OverflowError: it is more than 292 years.
    """
    number = real_number(seconds)
    if -TIMEOUT_MAX <= number <= TIMEOUT_MAX:
        return number
    if number != number:
        raise ValueError("Invalid value NaN (not a number)")
    raise OverflowError("timestamp out of range for platform time_t")


def real_number(value: Any) -> float:
    """Return a number as a float or an int.

    Raises:
        TypeError: it is none.
    """
    if isinstance(value, (float, int)):
        return value
    if _TAKES_REAL_NUMBERS and not hasattr(value, "__index__"):
        # It raises TypeError for text, which `float` takes.
        return math.ldexp(value, 0)
    return operator.index(value)
