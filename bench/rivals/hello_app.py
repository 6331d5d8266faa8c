"""The smallest ASGI application, which imports nothing: what is measured with it is the server alone."""


async def app(scope, receive, send):  # type: ignore[no-untyped-def]
    if scope["type"] != "http":
        raise NotImplementedError(scope["type"])
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"12")]})
    await send({"type": "http.response.body", "body": b"hello, world"})
