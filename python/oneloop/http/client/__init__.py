"""The HTTP client: for coroutines, green threads and plain code. Its public names are in `oneloop.http`.

| module | contents |
|---|---|
| `core` | one request from its arguments to its response, for all callers |
| `callers` | how each of them waits |
| `async_client`, `sync_client` | `AsyncClient`, `Client`, and functions such as `get` |
| `pools` | the connections of a client on one loop; `routes`: how a connection is opened; `proxies` |
| `requests`, `responses` | `Request`, `Response`; `bodies` and `multipart` make bodies, `codings` decode them |
| `carrier`, `carried` | requests of other packages' interfaces, and the routes of their connections |
| `tracing`, `tunnels` | what such packages are told, and connections through proxies for them |
| `httpx_transports`, `httpx_kinds`, `httpx_responses`, `network_streams` | for httpx and httpx2 |
| `requests_adapter`, `requests_raw` | for requests |
| `urls`, `headers`, `cookies`, `auth`, `settings`, `errors` | what their names say |
"""
