"""Charts as inline SVG: bars against the floor, latency distributions. Text in, text out; colours are CSS classes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

WIDTH = 720
LABEL_WIDTH = 150
VALUE_WIDTH = 150
BAR_HEIGHT = 16
BAR_PITCH = 23


@dataclass(frozen=True)
class Bar:
    """One rival: its figure, the lower part of it (user time), the range over the rounds, a text, a colour class."""

    label: str
    value: float
    lower: float
    low: float
    high: float
    text: str
    kind: str


def _attributes(**values: float | str) -> str:
    return " ".join(
        f'{name.replace("_", "-").rstrip("-")}="{value:.1f}"'
        if isinstance(value, float)
        else f'{name.replace("_", "-").rstrip("-")}="{escape(str(value))}"'
        for name, value in values.items()
    )


def tag(name: str, content: str = "", **values: float | str) -> str:
    """An element; `class_` and `a_b` become the attributes `class` and `a-b`."""
    return f"<{name} {_attributes(**values)}>{content}</{name}>"


def bars(items: Sequence[Bar], floor: float | None) -> str:
    """Horizontal bars with a line at the floor. Bars that are much longer than the others are cut and marked."""
    if not items:
        return ""
    body, height = bar_group(items, floor)
    return tag("svg", body, viewBox=f"0 0 {WIDTH} {height}", class_="bars", role="img")


def bar_group(items: Sequence[Bar], floor: float | None) -> tuple[str, int]:
    """The content of `bars` and its height, to be put into a larger drawing."""
    longest = _cut(sorted(item.value for item in items))
    room = WIDTH - LABEL_WIDTH - VALUE_WIDTH
    scale = room / longest if longest else 0.0
    height = len(items) * BAR_PITCH + 8
    drawn = []
    for number, item in enumerate(items):
        drawn.append(_bar(item, float(number * BAR_PITCH + 4), scale, longest))
    if floor is not None:
        x = LABEL_WIDTH + floor * scale
        drawn.append(tag("line", x1=x, x2=x, y1=0.0, y2=float(height), class_="floor-line"))
    return "".join(drawn), height


def _cut(values: Sequence[float]) -> float:
    """The length of the scale: the largest value, unless it is far above the median."""
    middle = values[len(values) // 2]
    return min(values[-1], max(4 * middle, values[0])) if middle else values[-1]


def _bar(item: Bar, y: float, scale: float, longest: float) -> str:
    width = min(item.value, longest) * scale
    lower = min(item.lower, longest) * scale
    middle = y + BAR_HEIGHT / 2
    parts = [
        tag("text", escape(item.label), x=float(LABEL_WIDTH - 8), y=middle, class_="label"),
        tag("rect", x=float(LABEL_WIDTH), y=y, width=width, height=float(BAR_HEIGHT),
             class_=f"bar {item.kind}"),
    ]  # fmt: skip
    if lower:
        parts.append(tag("rect", x=float(LABEL_WIDTH), y=y, width=lower,
                          height=float(BAR_HEIGHT), class_="user"))  # fmt: skip
    if item.high > item.low and item.high <= longest:
        x1, x2 = LABEL_WIDTH + item.low * scale, LABEL_WIDTH + item.high * scale
        parts.append(tag("line", x1=x1, x2=x2, y1=middle, y2=middle, class_="range"))
    cut = " ▸" if item.value > longest else ""
    x = max(LABEL_WIDTH + width, LABEL_WIDTH + min(item.high, longest) * scale) + 8
    parts.append(tag("text", escape(item.text + cut), x=x, y=middle, class_="value"))
    return "".join(parts)


@dataclass(frozen=True)
class Line:
    """One rival's latency curve: (quantile, nanoseconds)."""

    label: str
    points: Sequence[Sequence[float]]
    kind: str


CURVE_HEIGHT = 220
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 150, 10, 28
#: The labels on the quantile axis; the distance is the same for each further nine.
_QUANTILES = ((0.5, "50 %"), (0.9, "90 %"), (0.99, "99 %"), (0.999, "99.9 %"), (0.9999, "99.99 %"))


def _across(quantile: float) -> float:
    """0 at the minimum, 1 at 99.99 %: the axis of nines."""
    nines = -math.log10(max(1 - quantile, 1e-4))
    return nines / 4


def curves(lines: Sequence[Line], text: Callable[[float], str]) -> str:
    """Latency by quantile, both axes logarithmic; `text` formats nanoseconds for a label."""
    shown = [line for line in lines if line.points]
    if not shown:
        return ""
    every = [point[1] for line in shown for point in line.points if point[1] > 0]
    bottom, top = math.log10(min(every)), math.log10(max(every))
    top = max(top, bottom + 0.5)
    width, height = WIDTH - _LEFT - _RIGHT, CURVE_HEIGHT - _TOP - _BOTTOM

    def at(quantile: float, ns: float) -> tuple[float, float]:
        share = (math.log10(max(ns, 1.0)) - bottom) / (top - bottom)
        return _LEFT + _across(quantile) * width, _TOP + height * (1 - share)

    drawn = [_grid(bottom, top, at, text)]
    used: list[float] = []
    for line in sorted(shown, key=lambda line: -line.points[-1][1]):
        points = [at(quantile, ns) for quantile, ns in line.points if quantile <= 0.9999]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        drawn.append(tag("polyline", points=path, class_=f"curve {line.kind}"))
        y = points[-1][1]
        while any(abs(y - other) < 12 for other in used):
            y += 3
        used.append(y)
        x = float(WIDTH - _RIGHT + 6)
        drawn.append(tag("text", escape(line.label), x=x, y=y, class_=f"value {line.kind}-text"))
    height_px = max(float(CURVE_HEIGHT), max(used) + 14)
    body = "".join(drawn)
    return tag("svg", body, viewBox=f"0 0 {WIDTH} {height_px:.0f}", class_="curves", role="img")


def _grid(
    bottom: float,
    top: float,
    at: Callable[[float, float], tuple[float, float]],
    text: Callable[[float], str],
) -> str:
    drawn = []
    for exponent in range(math.ceil(bottom), math.floor(top) + 1):
        _, y = at(0.0, 10.0**exponent)
        drawn.append(tag("line", x1=float(_LEFT), x2=float(WIDTH - _RIGHT), y1=y, y2=y, class_="grid"))
        drawn.append(tag("text", text(10.0**exponent), x=float(_LEFT - 8), y=y, class_="label"))
    for quantile, label in _QUANTILES:
        x, _ = at(quantile, 1.0)
        low = float(CURVE_HEIGHT - _BOTTOM)
        drawn.append(tag("line", x1=x, x2=x, y1=float(_TOP), y2=low, class_="grid"))
        drawn.append(tag("text", label, x=x, y=low + 16, class_="axis"))
    return "".join(drawn)
