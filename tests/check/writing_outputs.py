"""Writes results to JSON lines and CSV until it is killed. Arguments: the two files."""

from __future__ import annotations

import sys

from oneloop.check.outputs import Csv, JsonLines
from tests.check.writing_journal import result_for

if __name__ == "__main__":
    outputs: tuple[JsonLines, Csv] = (JsonLines(sys.argv[1]), Csv(sys.argv[2]))
    number = 0
    while True:
        number += 1
        for output in outputs:
            output.write(result_for(number))
        if number % 10 == 0:
            for output in outputs:
                output.flush()
            print(number, flush=True)
