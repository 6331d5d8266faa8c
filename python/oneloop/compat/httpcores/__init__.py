"""The implementation of the facades `oneloop.compat.httpcore` and `oneloop.compat.httpcore2`.

| module | contents |
|---|---|
| `package` | the names of one of the packages, with pools of ours |
| `async_pool`, `sync_pool` | what makes its pools ours; `settings` reads their arguments |
| `bodies` | the bodies of answers |
| `httpx_transports` | the way from httpx's own transports to our pools, without httpcore's requests |
| `connections` | what `pool.connections` shows |
"""
