// Starting processes and resolving names with Node, timed from inside: batches, until they took --seconds together, and
// then what Node has put off, as bench/rivals/stopwatch.py finds it.
'use strict';
const { spawn } = require('child_process');
const dns = require('dns').promises;
const { setTimeout: sleep } = require('timers/promises');

const PERIOD_MS = 10;
const SAME_US = 100;
const MOST_PERIODS = 50;

const args = {};
for (let i = 2; i < process.argv.length; i += 2) args[process.argv[i].slice(2)] = process.argv[i + 1];
const count = Number(args.count);
const leastNs = Number(args.seconds || 0) * 1e9;
const ballast = Buffer.alloc((Number(args['parent-mib'] || 0)) << 20, '1');

function once() {
  return new Promise((resolve, reject) => {
    spawn('/bin/true', { stdio: 'inherit' }).on('exit', (code) => (code ? reject(code) : resolve()));
  });
}

async function putOffNs() {
  const periods = [];
  const rests = () => periods.length > 1 && periods.at(-2) - periods.at(-1) < SAME_US;
  while (periods.length < MOST_PERIODS && !rests()) {
    const before = process.cpuUsage();
    await sleep(PERIOD_MS);
    const used = process.cpuUsage(before);
    periods.push(used.user + used.system);
  }
  const atRest = Math.min(...periods.slice(-2));
  return periods.map((us) => us - atRest).filter((us) => us >= SAME_US).reduce((sum, us) => sum + us * 1000, 0);
}

async function main() {
  const work = args.host ? () => dns.lookup(args.host, { all: true }) : once;
  await work();
  await work();
  let elapsed = 0;
  let ops = 0;
  while (!ops || elapsed < leastNs) {
    const begin = process.hrtime.bigint();
    for (let i = 0; i < count; i++) await work();
    elapsed += Number(process.hrtime.bigint() - begin);
    ops += count;
  }
  elapsed += await putOffNs();
  console.log(JSON.stringify({ ns_per_op: elapsed / ops, ops: ops + 0 * ballast.length }));
  process.stdin.once('data', () => process.exit(0));
}
main();
