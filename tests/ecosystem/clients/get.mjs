// Node's clients against the site: keep-alive, upload, stream, WebSocket. Prints "right" at the end.
import http from "node:http";
const base = process.argv[2];
const check = (is, what) => {
  if (!is) throw new Error(what);
};
const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
const ask = (method, path, body) =>
  new Promise((resolve, reject) => {
    const request = http.request(base + path, { method, agent }, (response) => {
      let text = "";
      response.setEncoding("latin1");
      response.on("data", (part) => (text += part));
      response.on("end", () => resolve({ status: response.statusCode, text }));
      response.on("error", reject);
    });
    request.on("error", reject);
    if (body) for (const part of body) request.write(part);
    request.end();
  });
for (let round = 0; round < 20; round++) {
  check((await ask("GET", "/text")).text === "hello", "text");
  check((await ask("POST", "/echo", ["a", "bc"])).text === "abc", "chunked");
  check((await ask("GET", "/stream")).text === "data: 0\n\ndata: 1\n\ndata: 2\n\n", "stream");
  check((await ask("GET", "/empty")).status === 204, "empty");
  check((await ask("HEAD", "/text")).text === "", "head");
}
const form = new FormData();
form.append("name", "value");
form.append("file", new Blob([new Uint8Array(500000)]), "f.bin");
const answer = await fetch(base + "/upload", { method: "POST", body: form });
check((await answer.text()) === "f.bin 500000 value", "upload");
if (globalThis.WebSocket) {
  const socket = new WebSocket(base.replace("http", "ws") + "/socket");
  await new Promise((resolve, reject) => {
    socket.onopen = () => socket.send("message");
    socket.onerror = reject;
    socket.onmessage = (event) => {
      check(event.data === "message", "websocket");
      socket.close(1000);
    };
    socket.onclose = (event) => (event.code === 1000 ? resolve() : reject(new Error(event.code)));
  });
}
agent.destroy();
console.log("right");
