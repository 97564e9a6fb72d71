// Works on the messages of a queue, one after the other: node worker.js HOST:PORT QUEUE
//
// It receives from a stream, deletes what is done, extends the lease of what is slow, releases what fails, and
// connects again when the server drains, dies or restarts. SIGTERM and Ctrl-C stop it: what it holds goes back.

import { setTimeout as sleep } from 'node:timers/promises';

import grpc from '@grpc/grpc-js';

import { ask, connect, durationOf, failureIn, failureOf, isRetryable, pause } from './spoolrack.js';

const IN_FLIGHT = 10;
const DEADLINE = 30_000;
const A_MINUTE = 60_000;
const PATIENCE = 5_000; // for the end of a stream
const { CANCELLED, UNAVAILABLE } = grpc.status;

const [address, queue] = process.argv.slice(2);
if (queue === undefined) {
  console.error('usage: node worker.js HOST:PORT QUEUE');
  process.exit(2);
}
const client = connect(address);
const stopping = new AbortController();
let stream = null;
for (const signal of ['SIGTERM', 'SIGINT']) {
  process.once(signal, () => {
    stopping.abort();
    // Messages on their way still arrive, to be released below, and then the stream ends.
    stream?.end({ stop: {} });
    setTimeout(() => stream?.cancel(), PATIENCE).unref();
  });
}

// Asks for something about one message until the server has answered; false if the lease was lost.
async function settle(method, request) {
  for (let tries = 0; ; tries++) {
    let failure;
    try {
      const response = await ask(client, method, { queue, ...request }, { deadline: Date.now() + DEADLINE });
      const [{ error }] = response.results;
      if (!error) return true;
      failure = failureIn(error);
    } catch (error) {
      failure = failureOf(error);
    }
    if (failure.reason === 'STALE_RECEIPT') return false;
    if (!isRetryable(failure) || stopping.signal.aborted) throw new Error(`${failure.reason}: ${failure.message}`);
    await pause(tries, failure);
  }
}

const remove = ({ receipt }) => settle('delete', { targets: [{ receipt }] });
const extend = ({ receipt }, millis) =>
  settle('extendLeases', { extensions: [{ receipt, visibilityTimeout: durationOf(millis) }] });
// A release without a delay is one of a failure: the message is ready again after the queue's back-off.
const fail = ({ receipt }) => settle('release', { releases: [{ receipt }] });
// At once. Only a message that was begun counts as received.
const release = ({ receipt }, begun) =>
  settle('release', { releases: [{ receipt, delay: durationOf(0), uncounted: !begun }] });

async function work(message) {
  const { fails, slow } = message.attributes;
  if (fails && message.receiveCount === 1) {
    if (await fail(message)) console.log(`released ${message.id}`);
    return;
  }
  if (slow) {
    const millis = Number(slow.stringValue);
    if (!(await extend(message, millis + A_MINUTE))) return;
    console.log(`extended ${message.id}`);
    await sleep(millis, null, { signal: stopping.signal });
  }
  if (await remove(message)) console.log(`done ${message.id} ${message.body}`);
}

// Works on what one stream brings, until it ends; returns why it did.
async function follow() {
  stream = client.streamReceive();
  stream.write({ start: { queue, maxInFlight: IN_FLIGHT } });
  try {
    for await (const { received } of stream) {
      for (const message of received?.messages ?? []) {
        const begun = !stopping.signal.aborted;
        try {
          if (begun) await work(message);
          else await release(message, begun);
        } catch (error) {
          if (!begun || !stopping.signal.aborted) throw error;
          await release(message, begun);
        }
      }
    }
    return { code: CANCELLED };
  } catch (error) {
    if (error.code === undefined) throw error; // not gRPC's
    return failureOf(error);
  }
}

for (let tries = 0; !stopping.signal.aborted; tries++) {
  const begun = Date.now();
  const failure = await follow();
  if (stopping.signal.aborted) break;
  if (!isRetryable(failure)) throw new Error(`${failure.reason}: ${failure.message}`);
  console.log(`reconnecting ${failure.reason || (failure.code === UNAVAILABLE ? 'UNAVAILABLE' : failure.code)}`);
  if (Date.now() - begun > 5_000) tries = 0;
  await pause(tries, failure);
}
console.log('stopped');
client.close();
