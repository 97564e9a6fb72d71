// Sends COUNT jobs in batches, with attributes: node producer.js HOST:PORT QUEUE COUNT
//
// A batch whose answer is lost is sent again: its messages carry deduplication ids, so none is stored twice.

import { createHash } from 'node:crypto';

import { ask, connect, failureIn, failureOf, isRetryable, pause } from './spoolrack.js';

const BATCH = 100;
const DEADLINE = 30_000;

function job(queue, number) {
  const body = Buffer.from(`job ${number}`);
  return {
    body,
    attributes: {
      number: { stringValue: String(number) },
      digest: { binaryValue: createHash('sha256').update(body).digest() },
    },
    deduplicationId: `${queue}-${number}`,
  };
}

// Sends what is in `messages`, until all of it is on stable media.
async function send(client, queue, messages) {
  for (let tries = 0; messages.length > 0; tries++) {
    let failure;
    try {
      const { results } = await ask(client, 'send', { queue, messages }, { deadline: Date.now() + DEADLINE });
      const failures = results.map(({ error }) => (error ? failureIn(error) : null));
      failure = failures.find((each) => each && !isRetryable(each)) ?? failures.find((each) => each);
      messages = messages.filter((_, at) => failures[at] !== null);
    } catch (error) {
      failure = failureOf(error);
    }
    if (!failure) return;
    if (!isRetryable(failure)) throw new Error(`${failure.reason}: ${failure.message}`);
    await pause(tries, failure);
  }
}

const [address, queue, count] = process.argv.slice(2);
if (count === undefined) {
  console.error('usage: node producer.js HOST:PORT QUEUE COUNT');
  process.exit(2);
}
const client = connect(address);
for (let first = 1; first <= Number(count); first += BATCH) {
  const size = Math.min(BATCH, Number(count) - first + 1);
  await send(client, queue, Array.from({ length: size }, (_, at) => job(queue, first + at)));
}
console.log(`sent ${count}`);
client.close();
