"""linux_aio's names (those of linux_aio 0.4.1) on `oneloop.aio`.

Differences: where io_uring works, it is used. `submit()` then does not block on buffered files, except for blocks that
must not overtake a block in flight on the same file; and the jobs of a context do not count against `fs.aio-max-nr`.
`AIOContext(max_jobs, engine="aio")` forces kernel AIO. `timeout_ns=0` does not wait; without a timeout `get_events()`
waits, as in linux_aio. Read targets must be writable. The context keeps references to its blocks until their events are
returned. A change of `event_masks` takes effect. If the kernel is processing the block, `cancel()` does not raise: it
returns an event with -EINPROGRESS, and the block's own event follows.
"""

from __future__ import annotations

from oneloop.compat.linux_aio.aio_context import AIOContext
from oneloop.compat.linux_aio.aio_event import AIOEvent
from oneloop.compat.linux_aio.block import (
    AIOBlock,
    FDsyncBlock,
    FsyncBlock,
    PollBlock,
    ReadBlock,
    ReadVBlock,
    WriteBlock,
    WriteVBlock,
)
from oneloop.compat.linux_aio_bind import (
    IOCBCMD,
    IOCBFlag,
    IOCBPriorityClass,
    IOCBRWFlag,
    gen_io_priority,
)

__all__ = [
    "IOCBCMD",
    "AIOBlock",
    "AIOContext",
    "AIOEvent",
    "FDsyncBlock",
    "FsyncBlock",
    "IOCBFlag",
    "IOCBPriorityClass",
    "IOCBRWFlag",
    "PollBlock",
    "ReadBlock",
    "ReadVBlock",
    "WriteBlock",
    "WriteVBlock",
    "gen_io_priority",
]
