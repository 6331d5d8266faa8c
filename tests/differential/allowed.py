"""The differences from stock asyncio that are meant. All of them; each with its reason.

Said for users in docs/reference/differences-from-asyncio.md. Where it can be, a difference is kept out of the programs
rather than out of the comparison, so that everything that is compared is compared exactly. A switch that is set to
False holds oneloop to asyncio's behaviour.
"""

from __future__ import annotations

# "Bursts": while a few quick callbacks keep each other ready, the kernel is asked every 20 µs or 64 ticks only. No
# program tells; with True, every callback computes for SPIN_S first, so that a poll follows each, as in asyncio.
BURSTS = False
SPIN_S = 40e-6

# "Writes": the first write of a callback goes to the kernel at once; those that follow on the same transport within the
# same callback may leave when it ends. What the peer can read in between is not compared.
GATHERED_WRITES = True

# "Timers are exact": asyncio leaves the order of equal deadlines open (a heap is not a queue). The reference keeps them
# in the order of the calls.
EQUAL_DEADLINES = True

# "Handles let go": a callback that cancels its own handle and then fails is reported by its name; asyncio, which has
# forgotten it by then, says None(). And connection_made() is no handle here: its report names protocol and transport
# instead. That there is a report is compared, and its exception; not how it names the callback.
REPORTS_OF_CALLBACKS = True

# "Contexts": all methods of a protocol run in the context in which the connection was made, as on asyncio from Python
# 3.15 on; before, and with datagrams and pipes on every version, asyncio's run in that of whoever has caused the call.
# With True, the programs' protocols play their bodies in the connection's context on asyncio too.
OWN_CONTEXTS = True

# A NotImplementedError says what to do instead. A TypeError about an argument has the words of whoever looked at the
# argument first (C, Python or Rust).
TEXTS_OF_TYPE_ERRORS = True
