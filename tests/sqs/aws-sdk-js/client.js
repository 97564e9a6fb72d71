// All operations of SQS by the AWS SDK for JavaScript v3, once, against one server: its URL is the argument.
// The SDK itself checks the MD5 of each body that it sends and receives.
import assert from "node:assert/strict";
import * as sqs from "@aws-sdk/client-sqs";

const url = process.argv[2];
const client = new sqs.SQSClient({
  endpoint: url,
  region: "eu-west-1",
  credentials: { accessKeyId: "any", secretAccessKey: "any" },
  maxAttempts: 1,
});
const call = (operation, input) => client.send(new sqs[`${operation}Command`](input));

// Queues.
const dead = (await call("CreateQueue", { QueueName: "dead" })).QueueUrl;
const arn = (await call("GetQueueAttributes", { QueueUrl: dead, AttributeNames: ["QueueArn"] }))
  .Attributes.QueueArn;
const RedrivePolicy = JSON.stringify({ deadLetterTargetArn: arn, maxReceiveCount: 1 });
const created = await call("CreateQueue", {
  QueueName: "q",
  Attributes: { VisibilityTimeout: "30", RedrivePolicy },
  tags: { a: "1 & 2" },
});
const QueueUrl = created.QueueUrl;
assert.equal(QueueUrl, `${url}/000000000000/q`);
assert.equal((await call("GetQueueUrl", { QueueName: "q" })).QueueUrl, QueueUrl);
assert.deepEqual((await call("ListQueues", { QueueNamePrefix: "q" })).QueueUrls, [QueueUrl]);
assert.deepEqual((await call("ListDeadLetterSourceQueues", { QueueUrl: dead })).queueUrls, [QueueUrl]);
await call("TagQueue", { QueueUrl, Tags: { b: "2" } });
await call("UntagQueue", { QueueUrl, TagKeys: ["a"] });
assert.deepEqual((await call("ListQueueTags", { QueueUrl })).Tags, { b: "2" });
await call("SetQueueAttributes", { QueueUrl, Attributes: { DelaySeconds: "0" } });

// One message.
const MessageBody = "<a>&\r\n\t\u00e4 + %20</a> ";
const MessageAttributes = {
  text: { DataType: "String", StringValue: "\u00e4 & <b>" },
  number: { DataType: "Number", StringValue: "1" },
  bytes: { DataType: "Binary", BinaryValue: new Uint8Array([251, 255, 0]) },
};
const sent = await call("SendMessage", { QueueUrl, MessageBody, MessageAttributes });
const received = await call("ReceiveMessage", {
  QueueUrl,
  WaitTimeSeconds: 1,
  MessageSystemAttributeNames: ["All"],
  MessageAttributeNames: ["All"],
});
const [got] = received.Messages;
assert.equal(got.MessageId, sent.MessageId);
assert.equal(got.Body, MessageBody);
assert.equal(got.MD5OfMessageAttributes, sent.MD5OfMessageAttributes);
assert.equal(got.Attributes.ApproximateReceiveCount, "1");
assert.deepEqual(got.MessageAttributes, MessageAttributes);
const ReceiptHandle = got.ReceiptHandle;
await call("ChangeMessageVisibility", { QueueUrl, ReceiptHandle, VisibilityTimeout: 0 });
assert.equal((await call("ReceiveMessage", { QueueUrl })).Messages, undefined);
const [letter] = (await call("ReceiveMessage", { QueueUrl: dead, WaitTimeSeconds: 20 })).Messages;
await call("ChangeMessageVisibility", {
  QueueUrl: dead,
  ReceiptHandle: letter.ReceiptHandle,
  VisibilityTimeout: 0,
});
const { TaskHandle } = await call("StartMessageMoveTask", { SourceArn: arn });
let task;
do {
  [task] = (await call("ListMessageMoveTasks", { SourceArn: arn })).Results;
} while (task.Status === "RUNNING");
assert.equal(task.Status, "COMPLETED");
assert.equal(task.ApproximateNumberOfMessagesMoved, 1);
await assert.rejects(
  call("CancelMessageMoveTask", { TaskHandle }),
  (error) => error instanceof sqs.ResourceNotFoundException,
);
const [back] = (await call("ReceiveMessage", { QueueUrl, WaitTimeSeconds: 20 })).Messages;
assert.equal(back.Body, MessageBody);
await call("DeleteMessage", { QueueUrl, ReceiptHandle: back.ReceiptHandle });

// Batches.
const Entries = [...Array(9).keys()].map((n) => ({ Id: `${n}`, MessageBody: `m${n}` }));
Entries.push({ Id: "x", MessageBody: "\u0001" });
const batch = await call("SendMessageBatch", { QueueUrl, Entries });
assert.equal(batch.Successful.length, 9);
assert.equal(batch.Failed[0].Code, "InvalidMessageContents");
const all = await call("ReceiveMessage", { QueueUrl, MaxNumberOfMessages: 10 });
assert.deepEqual(all.Messages.map((each) => each.Body), Entries.slice(0, 9).map((each) => each.MessageBody));
const handles = all.Messages.map((each, n) => ({ Id: `${n}`, ReceiptHandle: each.ReceiptHandle }));
const changes = handles.map((each) => ({ ...each, VisibilityTimeout: 60 }));
const changed = await call("ChangeMessageVisibilityBatch", { QueueUrl, Entries: changes });
assert.equal(changed.Successful.length, 9);
const deleted = await call("DeleteMessageBatch", { QueueUrl, Entries: handles });
assert.equal(deleted.Successful.length, 9);

// A FIFO queue.
const fifo = (
  await call("CreateQueue", {
    QueueName: "q.fifo",
    Attributes: { FifoQueue: "true", ContentBasedDeduplication: "true" },
  })
).QueueUrl;
const numbers = [];
for (const body of ["1", "2", "2"]) {
  const answer = await call("SendMessage", { QueueUrl: fifo, MessageBody: body, MessageGroupId: "g" });
  numbers.push(answer.SequenceNumber);
}
assert.equal(numbers[1], numbers[2]);
const ordered = await call("ReceiveMessage", { QueueUrl: fifo, MaxNumberOfMessages: 10 });
assert.deepEqual(ordered.Messages.map((each) => each.Body), ["1", "2"]);

// Each error is the SDK's own class, with the code of the Query years in the class's name or beside it.
for (const [name, operation, input] of [
  ["QueueDoesNotExist", "GetQueueUrl", { QueueName: "none" }],
  ["QueueNameExists", "CreateQueue", { QueueName: "q", Attributes: { VisibilityTimeout: "31" } }],
  ["EmptyBatchRequest", "SendMessageBatch", { QueueUrl, Entries: [] }],
  ["ReceiptHandleIsInvalid", "DeleteMessage", { QueueUrl, ReceiptHandle: "x" }],
  ["UnsupportedOperation", "RemovePermission", { QueueUrl, Label: "x" }],
  ["UnsupportedOperation", "AddPermission", { QueueUrl, Label: "x", AWSAccountIds: ["1"], Actions: ["*"] }],
]) {
  await assert.rejects(call(operation, input), (error) => error instanceof sqs[name] && error.message.length > 0);
}

// A long poll that its program gives up leases nothing.
const abort = new AbortController();
const waiting = client.send(new sqs.ReceiveMessageCommand({ QueueUrl, WaitTimeSeconds: 20 }), {
  abortSignal: abort.signal,
});
abort.abort();
await assert.rejects(waiting, { name: "AbortError" });
await call("SendMessage", { QueueUrl, MessageBody: "last" });
const [last] = (await call("ReceiveMessage", { QueueUrl, WaitTimeSeconds: 20 })).Messages;
assert.equal(last.Body, "last");

await call("PurgeQueue", { QueueUrl });
await call("DeleteQueue", { QueueUrl });
console.log("all of it works");
