"""The same small site, written for each framework: text, JSON, echo, upload, stream, SSE, WebSocket, static file."""
