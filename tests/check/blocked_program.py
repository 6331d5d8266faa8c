"""Checks URLs within `namespace`, against a farm that every address leads to: run by test_blocked.

stdin: JSON with `urls`, in which `{http}` is the farm's port, and `options`. stdout: JSON with the outcomes and error
texts, in order, and the addresses at which the farm was connected to.
"""

from __future__ import annotations

import json
import sys

import oneloop
from tests.check.checked import checked
from tests.check.farm import process
from tests.check.farm.process import Farm


async def main(farm: Farm, urls: list[str], options: dict[str, object]) -> None:
    urls = [url.replace("{http}", str(farm.ports["http"])) for url in urls]
    results = await checked(urls, dns_servers=(farm.dns,), timeout_s=60, **options)
    found = {
        "outcomes": [result.outcome for result in results],
        "texts": [result.error_text for result in results],
        "addresses": farm.seen()["addresses"],
    }
    print(json.dumps(found))


if __name__ == "__main__":
    asked = json.load(sys.stdin)
    with process.start(hosts="0.0.0.0,::") as running:
        oneloop.run(main(running, asked["urls"], asked["options"]))
