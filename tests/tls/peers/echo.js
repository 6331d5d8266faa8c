// Node's tls as a peer; the command line is that of echo.py.
"use strict";
const fs = require("node:fs");
const tls = require("node:tls");

const versions = { 1.2: "TLSv1.2", 1.3: "TLSv1.3" };

function fail(what) {
  console.error(what);
  process.exit(1);
}

function content(size) {
  return Buffer.from(Uint8Array.from({ length: size }, (_, index) => 128 + (((index % 127) * 31) % 127)));
}

function pinned(version) {
  return { minVersion: versions[version], maxVersion: versions[version] };
}

function serve(pem, version, limit) {
  const both = fs.readFileSync(pem);
  const server = tls.createServer({ key: both, cert: both, ...pinned(version) }, (socket) => {
    let count = 0;
    socket.on("error", () => {});
    socket.on("data", (data) => {
      count += data.length;
      socket.write(data);
      if (limit && count >= limit) socket.end();
    });
  });
  server.listen(0, "127.0.0.1", () => console.log(`ready ${server.address().port}`));
}

function callOnce(port, authority, version, closer, sizes) {
  return new Promise((resolve) => {
    const options = { port, host: "127.0.0.1", ca: authority, servername: "localhost", ...pinned(version) };
    const left = [...sizes];
    let expected = null;
    let parts = [];
    let count = 0;
    const socket = tls.connect(options, next);
    function next() {
      if (!left.length) {
        expected = null;
        if (closer === "client") socket.end();
        return;
      }
      expected = content(left.shift());
      parts = [];
      count = 0;
      socket.write(expected);
    }
    socket.on("data", (data) => {
      if (!expected) fail("data after the last answer");
      parts.push(data);
      count += data.length;
      if (count < expected.length) return;
      if (!Buffer.concat(parts).equals(expected)) fail(`wrong answer to ${expected.length} bytes`);
      next();
    });
    socket.on("end", () => {
      if (left.length || expected) fail("ended too early");
    });
    socket.on("error", (error) => fail(`${error.code}: ${error.message}`));
    socket.on("close", (hadError) => (hadError ? fail("closed with an error") : resolve()));
  });
}

async function call(port, file, version, count, closer, sizes) {
  const authority = fs.readFileSync(file);
  for (let done = 0; done < count; done++) await callOnce(port, authority, version, closer, sizes);
  console.log("ok");
}

const [role, ...rest] = process.argv.slice(2);
if (role === "server") serve(rest[0], rest[1], Number(rest[2]));
else call(Number(rest[0]), rest[1], rest[2], Number(rest[3]), rest[4], rest.slice(5).map(Number));
