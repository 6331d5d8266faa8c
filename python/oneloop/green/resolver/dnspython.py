"""`Resolver`: queries name servers with the dnspython package, on the hub's loop and without threads.

Entries of /etc/hosts take precedence. The other sources of the system (nsswitch.conf) are not used.
"""

from __future__ import annotations

import socket as _stock
from typing import Any

import dns.asyncresolver
import dns.exception
import dns.resolver

from oneloop.green.bridge import await_
from oneloop.green.resolver.hosts import HostsFile
from oneloop.green.resolver.lookup import LookupResolver

__all__ = ["Resolver"]


class Resolver(LookupResolver):
    """A resolver based on dnspython.

    `resolver` is dnspython's resolver, with its settings (`nameservers`, `lifetime` in seconds, `cache`).
    """

    def __init__(self, hub: Any = None) -> None:
        self.resolver = dns.asyncresolver.Resolver()
        self.resolver.cache = dns.resolver.LRUCache()
        self._hosts = HostsFile()

    def addresses(self, name: str, family: int) -> tuple[str, list[str]]:
        """Implements `LookupResolver.addresses`."""
        known = self._hosts.addresses(name, family)
        if known:
            return name, known
        answers = _asked(self.resolver.resolve_name(name, family))
        found = list(answers.addresses()) if answers is not None else []
        if answers is None or not found:
            raise _stock.gaierror(_stock.EAI_NONAME, "Name or service not known")
        canonical = next(iter(answers.values())).canonical_name
        return canonical.to_text(omit_final_dot=True), found

    def names(self, address: str) -> list[str]:
        """Implements `LookupResolver.names`."""
        known = self._hosts.names(address)
        if known:
            return known
        answer = _asked(self.resolver.resolve_address(address.partition("%")[0]))
        return [] if answer is None else [one.target.to_text(omit_final_dot=True) for one in answer]


def _asked(question: Any) -> Any:
    """Make a query and return its result; None if there is no such name."""
    try:
        return await_(question)
    except (dns.resolver.NXDOMAIN, dns.resolver.NoAnswer, dns.resolver.NoNameservers) as error:
        if isinstance(error, dns.resolver.NoNameservers):
            raise _stock.gaierror(_stock.EAI_AGAIN, "Temporary failure in name resolution") from error
        return None
    except dns.exception.Timeout as error:
        raise _stock.gaierror(_stock.EAI_AGAIN, "Temporary failure in name resolution") from error
    except (dns.exception.DNSException, UnicodeError) as error:
        raise _stock.gaierror(_stock.EAI_NONAME, "Name or service not known") from error
