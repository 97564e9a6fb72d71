// The client: the contract as @grpc/proto-loader reads it, a channel that suits it, and what a failure means.
// Everything is camelCase, spans of time and moments are milliseconds, 64-bit numbers are Numbers.

import { fileURLToPath } from 'node:url';

import grpc from '@grpc/grpc-js';
import protoLoader from '@grpc/proto-loader';
import protobuf from 'protobufjs';

const CHECKOUT = fileURLToPath(new URL('../../../', import.meta.url));
const PROTOS = `${CHECKOUT}protos/`;
const FORM = { longs: Number, defaults: true, oneofs: true };
const FILES = ['queue', 'staging', 'reservation', 'redrive', 'schedule'].map((name) => `spoolrack/v1/${name}_service.proto`);
const definition = protoLoader.loadSync(FILES, {
  ...FORM,
  includeDirs: [PROTOS],
});
/** The services of the contract, by name. */
export const services = grpc.loadPackageDefinition(definition).spoolrack.v1;

// Without a reason a status is gRPC's, or a proxy's on the way: with these codes the server gave no answer.
const { UNAVAILABLE, DEADLINE_EXCEEDED, CANCELLED, INTERNAL, UNKNOWN, RESOURCE_EXHAUSTED } = grpc.status;
const NO_ANSWER = [UNAVAILABLE, DEADLINE_EXCEEDED, CANCELLED, INTERNAL, UNKNOWN, RESOURCE_EXHAUSTED];

/** A client at `host:port`. It connects when it is used, and again whenever the connection breaks. */
export function connect(address) {
  return new services.QueueService(address, grpc.credentials.createInsecure(), {
    // Bodies may have 64 MiB; gRPC's own limit is 4.
    'grpc.max_receive_message_length': -1,
    'grpc.max_send_message_length': -1,
    // A server that comes back is found again soon.
    'grpc.initial_reconnect_backoff_ms': 100,
    'grpc.max_reconnect_backoff_ms': 2000,
    // A server that vanished without a word is found out while a call or a stream waits for it.
    'grpc.keepalive_time_ms': 15000,
    'grpc.keepalive_timeout_ms': 10000,
  });
}

/** One call without streams, as a promise. `options` may have a `deadline`. */
export function ask(client, method, request, options = {}) {
  return new Promise((resolve, reject) => {
    client[method](request, options, (error, response) => (error ? reject(error) : resolve(response)));
  });
}

// The types of the contract, for those who want one by its name.
export const types = new protobuf.Root();
types.resolvePath = (origin, target) => `${PROTOS}${target}`;
types.loadSync([...FILES, 'google/rpc/status.proto', 'google/rpc/error_details.proto']);
const Status = types.lookupType('google.rpc.Status');
const ErrorInfo = types.lookupType('google.rpc.ErrorInfo');
const RetryInfo = types.lookupType('google.rpc.RetryInfo');

/** What a failed call says: `{code, message, domain, reason, metadata, retryMs}`. */
export function failureOf(error) {
  const [details] = error.metadata?.get('grpc-status-details-bin') ?? [];
  return { ...readStatus(details ?? Buffer.alloc(0)), code: error.code, message: error.details };
}

/** The same from the bytes of a `google.rpc.Status`. */
export function readStatus(bytes) {
  return failureIn(Status.decode(bytes));
}

/** The same of one message of many, from the `google.rpc.Status` in its result. */
export function failureIn({ code, message, details }) {
  const failure = { code, message, domain: '', reason: '', metadata: {}, retryMs: null };
  for (const { type_url: url, value } of details) {
    if (url.endsWith('/google.rpc.ErrorInfo')) {
      const { domain, reason, metadata } = ErrorInfo.decode(value);
      Object.assign(failure, { domain, reason, metadata });
    } else if (url.endsWith('/google.rpc.RetryInfo')) {
      failure.retryMs = millisOf(RetryInfo.toObject(RetryInfo.decode(value), FORM).retryDelay);
    }
  }
  return failure;
}

/** Whether the same request may succeed later. With a reason the server has decided that; without one, no answer came. */
export function isRetryable({ code, reason, retryMs }) {
  return reason ? retryMs !== null : NO_ANSWER.includes(code);
}

/** How long to wait before the next try: longer each time, and never less than the server asked for. */
export function pause(tries, { retryMs }) {
  const millis = Math.random() * Math.min(2000, 100 * 2 ** tries);
  return new Promise((resolve) => setTimeout(resolve, Math.max(millis, retryMs ?? 0)));
}

/** A `Duration` of so many milliseconds. */
export function durationOf(millis) {
  return { seconds: Math.floor(millis / 1000), nanos: (millis % 1000) * 1e6 };
}

/** The milliseconds of a `Duration` or a `Timestamp`; null for one that is absent. */
export function millisOf(time) {
  return time ? time.seconds * 1000 + Math.floor(time.nanos / 1e6) : null;
}
