"""The farm: servers on loopback that misbehave, for the tests of `oneloop check`.

They are one process of their own: `python -m tests.check.farm`; a test starts it by `farm.process.start`. `answers`
says what each path of the HTTP servers does; `listeners` has what goes wrong before HTTP: closed ports, ports that
never accept, TLS with wrong certificates; `proxy` is an HTTP proxy; `counts` is what the farm has seen.
"""
