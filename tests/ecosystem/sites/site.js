// The site on Node: ports for HTTP and HTTPS, certificate, how long connections are kept (ms), file of /big, of /gzip.
"use strict";
const crypto = require("crypto");
const fs = require("fs");
const http = require("http");
const https = require("https");

const [port, tlsPort, certificate, kept, bigFile, zippedFile] = process.argv.slice(2);
const big = fs.readFileSync(bigFile);
const zipped = fs.readFileSync(zippedFile);
const tag = '"big-1"';

function ranged(request, response) {
  const fields = request.headers;
  response.setHeader("ETag", tag);
  if (fields["if-none-match"] === tag) {
    response.writeHead(304);
    return response.end();
  }
  const wanted = /^bytes=(\d+)-(\d*)$/.exec(fields.range || "");
  if (!wanted || (fields["if-range"] || tag) !== tag) {
    response.setHeader("Content-Length", big.length);
    return response.end(big);
  }
  const begin = Number(wanted[1]);
  const end = Math.min(wanted[2] ? Number(wanted[2]) : big.length, big.length - 1);
  if (begin >= big.length) {
    response.writeHead(416, { "Content-Range": `bytes */${big.length}` });
    return response.end();
  }
  response.writeHead(206, { "Content-Range": `bytes ${begin}-${end}/${big.length}`, "Content-Length": end - begin + 1 });
  return response.end(big.subarray(begin, end + 1));
}

function site(request, response) {
  response.setHeader("X-Port", request.socket.remotePort);
  if (request.socket.isSessionReused) {
    response.setHeader("X-Resumed", String(request.socket.isSessionReused()));
  }
  switch (request.url) {
    case "/hello":
      response.setHeader("Content-Type", "application/json");
      return response.end('{"hello":"world"}');
    case "/big":
      return ranged(request, response);
    case "/gzip":
      response.setHeader("Content-Encoding", "gzip");
      return response.end(zipped);
    case "/echo": {
      const digest = crypto.createHash("sha256");
      let length = 0;
      request.on("data", (piece) => {
        length += piece.length;
        digest.update(piece);
      });
      return request.on("end", () => response.end(`${length} ${digest.digest("hex")}`));
    }
    case "/early":
      response.writeHead(413, { Connection: "close" });
      return response.end("too much");
    default:
      response.writeHead(404);
      return response.end();
  }
}

const pem = fs.readFileSync(certificate);
for (const [server, at] of [
  [http.createServer(site), port],
  [https.createServer({ key: pem, cert: pem }, site), tlsPort],
]) {
  server.keepAliveTimeout = Number(kept);
  server.listen(Number(at), "127.0.0.1");
}
