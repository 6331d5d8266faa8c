// Starting processes and resolving names with Node, timed from inside.
'use strict';
const { spawn } = require('child_process');
const dns = require('dns').promises;

const args = {};
for (let i = 2; i < process.argv.length; i += 2) args[process.argv[i].slice(2)] = process.argv[i + 1];
const count = Number(args.count);
const ballast = Buffer.alloc((Number(args['parent-mib'] || 0)) << 20, '1');

function once() {
  return new Promise((resolve, reject) => {
    spawn('/bin/true', { stdio: 'inherit' }).on('exit', (code) => (code ? reject(code) : resolve()));
  });
}

async function main() {
  const work = args.host ? () => dns.lookup(args.host, { all: true }) : once;
  await work();
  const begin = process.hrtime.bigint();
  for (let i = 0; i < count; i++) await work();
  const elapsed = Number(process.hrtime.bigint() - begin);
  console.log(JSON.stringify({ ns_per_op: elapsed / count, ops: count + 0 * ballast.length }));
  process.stdin.once('data', () => process.exit(0));
}
main();
