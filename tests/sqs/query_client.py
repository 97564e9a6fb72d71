"""A program on a boto3 that speaks AWS Query: all that such clients do, once, against one server.

Run by an interpreter with that boto3, and the server's URL.
"""

import json
import sys

import boto3
from botocore.exceptions import ClientError


def main(url: str) -> None:
    sqs = boto3.client(
        "sqs",
        endpoint_url=url,
        region_name="eu-west-1",
        aws_access_key_id="any",
        aws_secret_access_key="any",
    )
    assert sqs.meta.service_model.metadata["protocol"] == "query"
    dead = sqs.create_queue(QueueName="dead")["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=dead, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    policy = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": 1})
    attributes = {"VisibilityTimeout": "30", "RedrivePolicy": policy}
    queue = sqs.create_queue(QueueName="q", Attributes=attributes, tags={"a": "1 & 2"})["QueueUrl"]
    assert sqs.get_queue_url(QueueName="q")["QueueUrl"] == queue
    assert sqs.list_queues(QueueNamePrefix="q")["QueueUrls"] == [queue]
    assert sqs.list_queue_tags(QueueUrl=queue)["Tags"] == {"a": "1 & 2"}
    sqs.tag_queue(QueueUrl=queue, Tags={"b": "2"})
    sqs.untag_queue(QueueUrl=queue, TagKeys=["a"])
    assert sqs.list_queue_tags(QueueUrl=queue)["Tags"] == {"b": "2"}
    sqs.set_queue_attributes(QueueUrl=queue, Attributes={"DelaySeconds": "0"})
    assert sqs.list_dead_letter_source_queues(QueueUrl=dead)["queueUrls"] == [queue]
    body = "<a>&\r\n\t\u00e4 + %20</a> "
    given = {
        "text": {"DataType": "String", "StringValue": "\u00e4 & <b>"},
        "number": {"DataType": "Number", "StringValue": "1"},
        "bytes": {"DataType": "Binary", "BinaryValue": b"\xfb\xff\0"},
    }
    # This boto3 checks the MD5 of what it sends and receives.
    sent = sqs.send_message(QueueUrl=queue, MessageBody=body, MessageAttributes=given)
    (got,) = sqs.receive_message(
        QueueUrl=queue, AttributeNames=["All"], MessageAttributeNames=["All"], WaitTimeSeconds=1
    )["Messages"]
    assert (got["MessageId"], got["Body"]) == (sent["MessageId"], body), got
    assert got["MessageAttributes"] == given, got
    assert got["Attributes"]["ApproximateReceiveCount"] == "1"
    handle = got["ReceiptHandle"]
    sqs.change_message_visibility(QueueUrl=queue, ReceiptHandle=handle, VisibilityTimeout=0)
    assert "Messages" not in sqs.receive_message(QueueUrl=queue)
    letters = sqs.receive_message(QueueUrl=dead, WaitTimeSeconds=20)["Messages"]
    sqs.delete_message(QueueUrl=dead, ReceiptHandle=letters[0]["ReceiptHandle"])
    entries = [{"Id": str(n), "MessageBody": f"m{n}", "MessageAttributes": given} for n in range(9)]
    batch = sqs.send_message_batch(QueueUrl=queue, Entries=[*entries, {"Id": "x", "MessageBody": "\1"}])
    assert len(batch["Successful"]) == 9
    assert batch["Failed"][0]["Code"] == "InvalidMessageContents"
    assert batch["Failed"][0]["SenderFault"] is True
    messages = sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10)["Messages"]
    assert [message["Body"] for message in messages] == [f"m{n}" for n in range(9)]
    targets = [
        {"Id": str(n), "ReceiptHandle": each["ReceiptHandle"]} for n, each in enumerate(messages)
    ]
    changes = [{**target, "VisibilityTimeout": 60} for target in targets]
    changed = sqs.change_message_visibility_batch(QueueUrl=queue, Entries=changes)
    assert len(changed["Successful"]) == 9
    assert len(sqs.delete_message_batch(QueueUrl=queue, Entries=targets)["Successful"]) == 9
    for error, call, parameters in (
        (sqs.exceptions.QueueDoesNotExist, sqs.get_queue_url, {"QueueName": "none"}),
        (
            sqs.exceptions.QueueNameExists,
            sqs.create_queue,
            {"QueueName": "q", "Attributes": {"VisibilityTimeout": "31"}},
        ),
        (sqs.exceptions.EmptyBatchRequest, sqs.send_message_batch, {"QueueUrl": queue, "Entries": []}),
        (ClientError, sqs.delete_message, {"QueueUrl": queue, "ReceiptHandle": "x"}),
        (ClientError, sqs.receive_message, {"QueueUrl": queue, "MaxNumberOfMessages": 11}),
    ):
        try:
            call(**parameters)
        except error:
            continue
        raise AssertionError(f"{call} was not refused")
    sqs.start_message_move_task(SourceArn=arn)
    while sqs.list_message_move_tasks(SourceArn=arn)["Results"][0]["Status"] != "COMPLETED":
        pass
    sqs.purge_queue(QueueUrl=queue)
    sqs.delete_queue(QueueUrl=queue)
    print("all of it works")


if __name__ == "__main__":
    main(sys.argv[1])
