"""What the sites of the frameworks are asked, and what any of them is to answer."""

from __future__ import annotations

MULTIPART = (
    b'--x\r\nContent-Disposition: form-data; name="name"\r\n\r\nvalue\r\n'
    b'--x\r\nContent-Disposition: form-data; name="file"; filename="f.bin"\r\n'
    b"Content-Type: application/octet-stream\r\n\r\n" + b"0123456789" * 50_000 + b"\r\n--x--\r\n"
)


def request(method: str, path: str, *fields: str, body: bytes = b"") -> bytes:
    head = [f"{method} {path} HTTP/1.1", "Host: localhost", *fields]
    if body:
        head.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*head, "", ""]).encode() + body


REQUESTS = {
    "text": request("GET", "/text"),
    "head": request("HEAD", "/text"),
    "json": request("GET", "/json?a=b&c=%20d"),
    "gzip": request("GET", "/json", "Accept-Encoding: gzip"),
    "echo": request("POST", "/echo", body=b"abc"),
    "echo-long": request("POST", "/echo", body=bytes(300_000)),
    "echo-chunked": request("POST", "/echo", "Transfer-Encoding: chunked") + b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n",
    "upload": request("POST", "/upload", "Content-Type: multipart/form-data; boundary=x", body=MULTIPART),
    "stream": request("GET", "/stream"),
    "events": request("GET", "/events"),
    "redirect": request("GET", "/redirect"),
    "empty": request("GET", "/empty"),
    "static": request("GET", "/static/file.txt"),
    "static-head": request("HEAD", "/static/file.txt"),
    "static-range": request("GET", "/static/file.txt", "Range: bytes=10-19"),
    "static-missing": request("GET", "/static/none.txt"),
    "missing": request("GET", "/none"),
    "method": request("DELETE", "/text"),
    "fails": request("GET", "/fails"),
}
# What an application of the site answers; all others are 200.
STATUSES = {
    # FastAPI and Litestar answer HEAD where there is a handler for it.
    "head": (200, 405),
    "redirect": (302, 307),
    "empty": (204,),
    # Django's FileResponse knows no ranges, and its views here take any method.
    "static-range": (206, 200),
    "method": (405, 200),
    "static-missing": (404, 500),
    "missing": (404,),
    "fails": (500,),
}
BODIES = {
    "text": b"hello",
    "head": b"",
    "echo": b"abc",
    "echo-long": bytes(300_000),
    "echo-chunked": b"abcde",
    "upload": b"f.bin 500000 value",
    "static": b"static " * 1000,
    "static-head": b"",
}
