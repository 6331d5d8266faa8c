"""RFC 9110 and 9112 requirement by requirement: what is served, what is refused, and that nothing follows a refusal.

Each case comes whole, byte by byte, and with a second request behind it.
"""

from __future__ import annotations

import asyncio

import pytest

from tests.http.rules import ACCEPTED, REFUSED, Accepted, Refused
from tests.http.site import Echo, Site, Wire, serving

# A head of 8,000 bytes in as many packets takes many seconds where the machine is busy.
PATIENT = {"header_timeout_s": 1000, "body_timeout_s": 1000}
SECOND = b"GET /second HTTP/1.1\r\nHost: a\r\n\r\n"


async def check_accepted(site: Site, echo: Echo, rule: Accepted, wire: Wire) -> None:
    response = await wire.answer(rule.method)
    assert response.status == rule.status, (rule, response)
    assert response.closes == rule.closes or rule.says_nothing, (rule, response)
    heard = echo.heard[0]
    if rule.method != "HEAD":
        assert response.body == rule.body
    assert heard.body == rule.body
    for key, value in rule.scope.items():
        assert heard.scope[key] == value, rule
    for name, value in rule.fields:
        assert [v for n, v in heard.scope["headers"] if n == name] == [value], rule


@pytest.mark.parametrize("rule", ACCEPTED, ids=lambda rule: rule.name)
@pytest.mark.parametrize("way", ["whole", "bytewise", "followed"])
async def test_accepted(rule: Accepted, way: str) -> None:
    echo = Echo()
    async with serving(echo, **PATIENT) as site:
        wire = await site.connect()
        if way == "whole":
            await wire.send(rule.sent)
        elif way == "bytewise":
            await wire.send_bytewise(rule.sent)
        else:
            await wire.send(rule.sent + SECOND)
        await check_accepted(site, echo, rule, wire)
        if way != "followed" and not rule.closes:
            await wire.send(SECOND)
        if rule.closes:
            assert await wire.rest() == b""
            assert len(echo.heard) == 1
        else:
            second = await wire.answer()
            assert second.status == 200
            assert [heard.scope["path"] for heard in echo.heard[1:]] == ["/second"]


@pytest.mark.parametrize("rule", REFUSED, ids=lambda rule: rule.name)
@pytest.mark.parametrize("way", ["whole", "bytewise", "followed"])
async def test_refused(rule: Refused, way: str) -> None:
    echo = Echo()
    async with serving(echo, **{**PATIENT, **rule.options}) as site:
        wire = await site.connect()
        if way == "bytewise":
            await wire.send_bytewise(rule.sent)
            if rule.is_cut:
                wire.end()
        else:
            await wire.send(rule.sent + (SECOND if way == "followed" else b""))
            if rule.is_cut and way == "whole":
                wire.end()
        response = await asyncio.wait_for(wire.answer(rule.method), 100)
        assert response.status in rule.statuses, (rule, response)
        assert response.closes, (rule, response)
        assert await wire.rest() == b""
        await wire.close()
        # The application may have been asked, of a request whose body went wrong; never for what stands behind it.
        assert all(heard.body is None for heard in echo.heard)
        assert all(heard.scope["path"] != "/second" for heard in echo.heard)
        assert bool(echo.heard) <= rule.is_body
