// Node's echo servers: net, tls, dgram, http. One process, as `node file.js` runs it.
'use strict';
const fs = require('fs');

const args = {};
for (let i = 2; i < process.argv.length; i += 2) args[process.argv[i].slice(2)] = process.argv[i + 1];
const size = Number(args.size || 1024);

function onConnection(socket) {
  if (socket.setNoDelay) socket.setNoDelay(true);
  socket.on('error', () => socket.destroy());
  let rest = Buffer.alloc(0);
  socket.on('data', (data) => {
    if (args.form === 'accept') return socket.end(data);
    if (args.form !== 'pipeline') return socket.write(data);
    if (rest.length) data = Buffer.concat([rest, data]);
    let at = 0;
    for (; at + size <= data.length; at += size) socket.write(data.subarray(at, at + size));
    rest = data.subarray(at);
  });
}

function announce(port) {
  process.stdout.write(`ready ${port}\n`);
}

if (args.form === 'udp') {
  const socket = require('dgram').createSocket('udp4');
  socket.on('message', (data, from) => socket.send(data, from.port, from.address));
  socket.bind(0, '127.0.0.1', () => announce(socket.address().port));
} else if (args.form === 'http') {
  const server = require('http').createServer((request, response) => {
    const body = Buffer.alloc(Number(request.url.slice(1)), 'x');
    response.writeHead(200, { 'Content-Type': 'text/plain', 'Content-Length': body.length });
    response.end(body);
  });
  server.keepAliveTimeout = 0;
  server.listen({ port: 0, host: '127.0.0.1', backlog: 4096 }, () => announce(server.address().port));
} else if (args.tls) {
  const pem = fs.readFileSync(args.tls);
  const server = require('tls').createServer({ key: pem, cert: pem }, onConnection);
  server.listen({ port: 0, host: '127.0.0.1', backlog: 4096 }, () => announce(server.address().port));
} else if (args.family === 'unix') {
  const server = require('net').createServer(onConnection);
  server.listen({ path: args.path, backlog: 4096 }, () => announce(0));
} else {
  const server = require('net').createServer({ noDelay: true }, onConnection);
  server.listen({ port: 0, host: '127.0.0.1', backlog: 4096 }, () => announce(server.address().port));
}
