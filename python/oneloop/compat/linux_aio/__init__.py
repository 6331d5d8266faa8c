"""linux_aio's names (those of linux_aio 0.4.1) on `oneloop.aio`.

Differences: on io_uring where it works, so that `submit()` does not block on buffered files, except
for what must not overtake a block in flight on the same file, and so that a context's jobs do not
count against `fs.aio-max-nr` (`AIOContext(max_jobs, engine="aio")` insists on kernel AIO).
`timeout_ns=0` does not wait; without a timeout `get_events()` waits, as it always has. Read targets
must be writable. The context keeps its blocks until their events are returned. A changed
`event_masks` counts. `cancel()` does not raise while the kernel is at it: its event says
-EINPROGRESS, and the block's own event follows.
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
