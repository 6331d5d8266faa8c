"""`Cutter` and `Lines`: a long body in parts and lines."""

from __future__ import annotations

import time

from oneloop.http.client.parts import Cutter, Lines


def test_lines_of_a_long_body_take_linear_time() -> None:
    lines = Lines()
    count = 0
    began = time.process_time()
    for _ in range(20_000):
        count += len(lines.add("x" * 1000))
    found = lines.add("\nnext")
    assert (count, len(found), len(found[0])) == (0, 1, 20_000_000)
    assert lines.rest() == ["next"]
    cutter = Cutter(10_000_000)
    sizes = [len(part) for _ in range(20_000) for part in cutter.add(bytes(1000))]
    assert sizes == [10_000_000, 10_000_000]
    # 20,000 times 10 MB would be minutes.
    assert time.process_time() - began < 20
