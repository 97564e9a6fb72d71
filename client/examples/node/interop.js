// The interop driver: does what the tests in tests/interop say, in the words of their PROTOCOL.md.

import { createInterface } from 'node:readline';

import { ask, connect, durationOf, failureIn, failureOf, millisOf, readStatus, services, types } from './spoolrack.js';

const client = connect(process.argv[2]);
const streams = new Map();

const tell = (line) => process.stdout.write(`${JSON.stringify(line)}\n`);
const bytes = (text) => Buffer.from(text, 'base64');
const text = (buffer) => Buffer.from(buffer).toString('base64');
const span = (millis) => (millis === undefined ? undefined : durationOf(millis));
const told = ({ retryMs, ...failure }) => ({ ...failure, retry_ms: retryMs });
const lowerFirst = (name) => name[0].toLowerCase() + name.slice(1);
const deadline = ({ timeout_ms: millis }) => (millis === undefined ? {} : { deadline: Date.now() + millis });

function outgoing({ body, attributes = {}, delay_ms: delay, deduplication_id: deduplicationId = '' }) {
  const values = Object.entries(attributes).map(([name, value]) => [
    name,
    'text' in value ? { stringValue: value.text } : { binaryValue: bytes(value.bytes) },
  ]);
  return { body: bytes(body), attributes: Object.fromEntries(values), delay: span(delay), deduplicationId };
}

function message({ id, body, attributes, bodySize, receiveCount, receipt, sendTime }) {
  const values = Object.entries(attributes).map(([name, value]) => [
    name,
    value.value === 'stringValue' ? { text: value.stringValue } : { bytes: text(value.binaryValue) },
  ]);
  return {
    id,
    body: text(body),
    attributes: Object.fromEntries(values),
    size: bodySize,
    receive_count: receiveCount,
    receipt,
    send_ms: millisOf(sendTime),
  };
}

const result = ({ error, ...rest }, of) => (error ? { error: told(failureIn(error)) } : of(rest));
const sent = (each) => result(each, ({ sent: { id } }) => ({ id }));

async function extend({ queue, receipts, ...request }) {
  const visibilityTimeout = span(request.visibility_ms);
  const extensions = receipts.map((receipt) => ({ receipt, visibilityTimeout }));
  const { results } = await ask(client, 'extendLeases', { queue, extensions }, deadline(request));
  return {
    results: results.map((each) => result(each, ({ leaseExpireTime }) => ({ due_ms: millisOf(leaseExpireTime) }))),
  };
}

async function release({ queue, receipts, ...request }) {
  const releases = receipts.map((receipt) => ({ receipt, delay: span(0) }));
  const { results } = await ask(client, 'release', { queue, releases }, deadline(request));
  return { results: results.map((each) => result(each, () => ({}))) };
}

function begin(request) {
  const call = client.streamReceive(deadline(request));
  call.end({
    start: {
      queue: request.queue,
      maxInFlight: request.max_in_flight,
      visibilityTimeout: span(request.visibility_ms),
    },
  });
  const { stream } = request;
  streams.set(stream, call);
  const end = (how) => {
    if (streams.delete(stream)) tell({ stream, end: told(how) });
  };
  call.on('data', ({ received }) => tell({ stream, messages: received.messages.map(message) }));
  call.on('error', (error) => end(failureOf(error)));
  call.on('end', () => {
    // An error follows it, where there is one.
    call.once('status', (status) => end(failureOf(status)));
  });
}

function sendStream({ queue, batches, ...request }) {
  return new Promise((resolve, reject) => {
    const responses = [];
    const call = client.streamSend(deadline(request));
    call.on('data', ({ correlationId, response, error }) => {
      const answer = error ? { error: told(failureIn(error)) } : { results: response.results.map(sent) };
      responses.push({ correlation_id: correlationId, ...answer });
    });
    call.on('error', reject);
    call.on('end', () => resolve({ responses }));
    batches.forEach((batch, at) => {
      call.write({ correlationId: at + 1, request: { queue, messages: batch.map(outgoing) } });
    });
    call.end();
  });
}

// Any method, in bytes: what proto-loader makes of the contract parses and writes them.
function call(request) {
  const [service, name] = request.method.split('/');
  const { path, requestSerialize, requestDeserialize, responseSerialize, responseDeserialize } =
    services[service.split('.').pop()].service[name];
  return new Promise((resolve, reject) => {
    client.makeUnaryRequest(
      path,
      requestSerialize,
      responseDeserialize,
      requestDeserialize(bytes(request.request)),
      deadline(request),
      (error, response) => (error ? reject(error) : resolve({ response: text(responseSerialize(response)) })),
    );
  });
}

const OPS = {
  async send(request) {
    const messages = request.messages.map(outgoing);
    const { results } = await ask(client, 'send', { queue: request.queue, messages }, deadline(request));
    return { results: results.map(sent) };
  },
  send_stream: sendStream,
  async receive(request) {
    const asked = {
      queue: request.queue,
      maxMessages: request.max,
      wait: span(request.wait_ms),
      visibilityTimeout: span(request.visibility_ms),
    };
    const { messages } = await ask(client, 'receive', asked, deadline(request));
    return { messages: messages.map(message) };
  },
  async delete(request) {
    const targets = request.receipts.map((receipt) => ({ receipt }));
    const { results } = await ask(client, 'delete', { queue: request.queue, targets }, deadline(request));
    return { results: results.map((each) => result(each, () => ({}))) };
  },
  extend,
  release,
  async stream(request) {
    begin(request);
    return {};
  },
  async cancel({ stream }) {
    streams.get(stream)?.cancel();
    return {};
  },
  call,
  async recode({ type, binary }) {
    const kind = types.lookupType(type);
    return { binary: text(kind.encode(kind.decode(bytes(binary))).finish()) };
  },
  async status({ binary }) {
    return { error: told(readStatus(bytes(binary))) };
  },
};

async function answer(line) {
  const request = JSON.parse(line);
  const { id } = request;
  try {
    tell({ id, ok: await OPS[request.op](request) });
  } catch (error) {
    if (error.code === undefined) throw error; // not gRPC's: a mistake in here
    tell({ id, error: told(failureOf(error)) });
  }
}

tell({ ready: true });
for await (const line of createInterface({ input: process.stdin })) answer(line);
for (const call of streams.values()) call.cancel();
client.close();
