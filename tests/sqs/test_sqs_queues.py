"""Queues over SQS, by boto3: made, changed, listed and deleted as SQS says."""

from __future__ import annotations

import asyncio
import base64
import json
from pathlib import Path
from typing import Any

import pytest
from spoolrack_server.process.server import Server
from spoolrack_server.sqs import sqs_operations
from spoolrack_server.sqs.sqs_operations import OPERATIONS
from spoolrack_store.manual_clock import ManualClock
from spoolrack_store.model.operations import UpdateQueue

from tests.support import MIB
from tests.support.sqs_rig import REGION, Sqs, ended, raw, refused, serving_sqs


def test_every_operation_of_sqs_is_there(sqs: Sqs) -> None:
    assert frozenset(sqs.client.meta.service_model.operation_names) == OPERATIONS


async def test_a_queues_url_begins_with_what_its_client_calls_the_server(
    sqs: Sqs, server: Server
) -> None:
    url = await sqs.create("q")
    assert url == f"{server.sqs_url}/000000000000/q"
    assert (await sqs.get_queue_url(QueueName="q"))["QueueUrl"] == url
    answer = await raw(server, "GetQueueUrl", {"QueueName": "q"}, Host="localhost:1")
    assert answer.json == {"QueueUrl": "http://localhost:1/000000000000/q"}


async def test_a_queue_shows_the_attributes_that_it_was_made_with(sqs: Sqs) -> None:
    wanted = {
        "VisibilityTimeout": "0",
        "DelaySeconds": "900",
        "MaximumMessageSize": "1024",
        "MessageRetentionPeriod": "60",
    }
    url = await sqs.create("q", **wanted)
    shown = await sqs.attributes(url)
    assert {name: shown[name] for name in wanted} == wanted
    assert shown["QueueArn"] == f"arn:aws:sqs:{REGION}:000000000000:q"
    assert await sqs.attributes(url, "DelaySeconds") == {"DelaySeconds": "900"}


async def test_a_queue_has_the_defaults_of_sqs(sqs: Sqs) -> None:
    shown = await sqs.attributes(await sqs.create("q"))
    assert shown["VisibilityTimeout"] == "30"
    assert shown["MessageRetentionPeriod"] == "345600"
    assert shown["MaximumMessageSize"] == "1048576"
    assert shown["ReceiveMessageWaitTimeSeconds"] == "0"


async def test_a_queue_that_keeps_messages_for_ever_shows_the_longest_that_sqs_knows(
    sqs: Sqs, server: Server
) -> None:
    url = await sqs.create("q")
    change = UpdateQueue(name="q", changes={"retention": 0})
    await asyncio.wrap_future(server.store.submit(change))
    assert (await sqs.attributes(url))["MessageRetentionPeriod"] == "1209600"


async def test_creating_again_compares_only_what_is_named(sqs: Sqs) -> None:
    url = await sqs.create("q", VisibilityTimeout="7")
    await sqs.set_queue_attributes(QueueUrl=url, Attributes={"DelaySeconds": "3"})
    assert await sqs.create("q") == url
    assert await sqs.create("q", VisibilityTimeout="7", DelaySeconds="3") == url
    refusal = await refused(sqs.create("q", VisibilityTimeout="8"))
    assert (refusal.code, refusal.shape) == ("QueueAlreadyExists", "QueueNameExists")
    assert "VisibilityTimeout" in refusal.message


async def test_lists_of_queues_have_pages(sqs: Sqs, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a1", "a2", "a3", "b1"):
        await sqs.create(name)

    def names(found: Any) -> list[str]:
        return [url.rpartition("/")[2] for url in found.get("QueueUrls", [])]

    everything = await sqs.list_queues()
    assert names(everything) == ["a1", "a2", "a3", "b1"]
    assert "NextToken" not in everything
    first = await sqs.list_queues(QueueNamePrefix="a", MaxResults=2)
    assert names(first) == ["a1", "a2"]
    rest = await sqs.list_queues(QueueNamePrefix="a", MaxResults=2, NextToken=first["NextToken"])
    assert names(rest) == ["a3"]
    assert "NextToken" not in rest
    assert names(await sqs.list_queues(QueueNamePrefix="c")) == []
    refusal = await refused(sqs.list_queues(NextToken="?"))
    assert (refusal.code, refusal.message) == (
        "InvalidParameterValue",
        "Invalid or expired next token.",
    )
    # SQS has a token only if MaxResults was given, and else lists as many as it may.
    monkeypatch.setattr(sqs_operations, "MOST_LISTED", 3)
    most = await sqs.list_queues()
    assert names(most) == ["a1", "a2", "a3"]
    assert "NextToken" not in most


async def test_a_purged_queue_is_empty_and_a_deleted_one_is_gone(sqs: Sqs) -> None:
    url = await sqs.create("q")
    await sqs.send(url, "a")
    await sqs.receive(url)
    await sqs.send(url, "b")
    await sqs.purge_queue(QueueUrl=url)
    shown = await sqs.attributes(url)
    assert shown["ApproximateNumberOfMessages"] == shown["ApproximateNumberOfMessagesNotVisible"] == "0"
    await sqs.delete_queue(QueueUrl=url)
    with pytest.raises(sqs.client.exceptions.QueueDoesNotExist):
        await sqs.send(url, "b")
    assert "QueueUrls" not in await sqs.list_queues()


async def test_a_redrive_policy_sends_dead_letters_there(sqs: Sqs) -> None:
    dead = await sqs.create("dead")
    arn = (await sqs.attributes(dead))["QueueArn"]
    policy = {"deadLetterTargetArn": arn, "maxReceiveCount": "3"}
    url = await sqs.create("q", RedrivePolicy=json.dumps(policy))
    shown = json.loads((await sqs.attributes(url))["RedrivePolicy"])
    assert shown == {"deadLetterTargetArn": arn, "maxReceiveCount": 3}
    sources = await sqs.list_dead_letter_source_queues(QueueUrl=dead)
    assert sources["queueUrls"] == [url]
    assert await sqs.create("q", RedrivePolicy=json.dumps(policy)) == url
    await sqs.set_queue_attributes(QueueUrl=url, Attributes={"RedrivePolicy": ""})
    assert "RedrivePolicy" not in await sqs.attributes(url)
    assert (await sqs.list_dead_letter_source_queues(QueueUrl=dead))["queueUrls"] == []


async def test_dead_letters_move_back_by_a_task(sqs: Sqs, server: Server) -> None:
    dead = await sqs.create("dead")
    arn = (await sqs.attributes(dead))["QueueArn"]
    policy = await sqs.redrive_policy(dead)
    url = await sqs.create("q", RedrivePolicy=policy)
    await sqs.send(url, "x")
    (message,) = await sqs.receive(url)
    await sqs.change(url, message["ReceiptHandle"], 0)
    assert await sqs.receive(url) == []
    while (await sqs.attributes(dead))["ApproximateNumberOfMessages"] == "0":
        await asyncio.sleep(0)
    started = await sqs.start_message_move_task(SourceArn=arn)
    while True:
        (task,) = (await sqs.list_message_move_tasks(SourceArn=arn))["Results"]
        if task["Status"] == "COMPLETED":
            break
        assert task["TaskHandle"] == started["TaskHandle"]
    assert task["ApproximateNumberOfMessagesMoved"] == 1
    (back,) = await sqs.receive(url)
    assert back["MessageId"] == message["MessageId"]
    ended = sqs.cancel_message_move_task(TaskHandle=started["TaskHandle"])
    assert (await refused(ended)).status == 404


async def test_a_task_that_runs_is_alone_and_ends_when_it_is_cancelled(sqs: Sqs) -> None:
    dead = await sqs.create("dead")
    await sqs.create("target")
    arn = (await sqs.attributes(dead))["QueueArn"]
    policy = await sqs.redrive_policy(dead)
    await sqs.create("q", RedrivePolicy=policy)
    for body in "abc":
        await sqs.send(dead, body)
    # Its second message is a second later, and the clock stands still.
    target = arn.replace("dead", "target")
    started = await sqs.start_message_move_task(
        SourceArn=arn, DestinationArn=target, MaxNumberOfMessagesPerSecond=1
    )
    (task,) = (await sqs.list_message_move_tasks(SourceArn=arn))["Results"]
    assert (task["Status"], task["TaskHandle"]) == ("RUNNING", started["TaskHandle"])
    assert task["ApproximateNumberOfMessagesToMove"] == 3
    refusal = await refused(sqs.start_message_move_task(SourceArn=arn, DestinationArn=target))
    assert (refusal.code, refusal.status) == ("InvalidParameterValue", 400)
    assert refusal.message.startswith("There is already a task running.")
    ended = await sqs.cancel_message_move_task(TaskHandle=started["TaskHandle"])
    (task,) = (await sqs.list_message_move_tasks(SourceArn=arn))["Results"]
    assert (task["Status"], task["DestinationArn"]) == ("CANCELLED", target)
    assert "TaskHandle" not in task
    moved = ended["ApproximateNumberOfMessagesMoved"]
    assert task["ApproximateNumberOfMessagesMoved"] == moved <= 1
    assert task["ApproximateNumberOfMessagesToMove"] == moved
    refusal = await refused(sqs.cancel_message_move_task(TaskHandle=started["TaskHandle"]))
    assert (refusal.shape, refusal.status) == ("ResourceNotFoundException", 404)
    await sqs.start_message_move_task(SourceArn=arn, DestinationArn=target)


async def test_an_unknown_operation_is_refused(server: Server) -> None:
    answer = await raw(server, "Dance", b"{}")
    assert (answer.status, answer.headers["x-amzn-query-error"]) == (400, "InvalidAction;Sender")
    answer = await raw(server, "__init__", b"{}")
    assert answer.status == 400


async def test_a_page_of_another_site_can_do_nothing(server: Server, sqs: Sqs) -> None:
    url = await sqs.create("q")
    for headers in ({"Origin": "https://example.com"}, {"Host": "example.com"}):
        answer = await raw(server, "DeleteQueue", {"QueueUrl": url}, **headers)
        assert answer.status in (403, 421)
    assert (await sqs.list_queues())["QueueUrls"] == [url]


@pytest.mark.parametrize("more", [0, 1])
async def test_a_request_that_is_too_large_is_refused(server: Server, more: int) -> None:
    answer = await raw(server, "ListQueues", b"{}".ljust(8 * MIB + more))
    assert (answer.status, f"has over {8 * MIB} bytes" in answer.body.decode()) == (
        (400, True) if more else (200, False)
    )


async def test_requests_are_counted_by_their_operation(sqs: Sqs, server: Server) -> None:
    await sqs.create("q")
    assert await ended(server, "CreateQueue", "200") == 1


async def test_a_message_becomes_a_dead_letter_at_the_receive_after_the_last(sqs: Sqs) -> None:
    dead = await sqs.create("dead", VisibilityTimeout="5")
    policy = await sqs.redrive_policy(dead, 2)
    url = await sqs.create("q", RedrivePolicy=policy, VisibilityTimeout="5")
    sent = await sqs.send(url, "x")
    for _ in range(2):
        (message,) = await sqs.receive(url)
        await sqs.change(url, message["ReceiptHandle"], 0)
    assert (await sqs.attributes(url))["ApproximateNumberOfMessages"] == "1"
    assert (await sqs.attributes(dead))["ApproximateNumberOfMessages"] == "0"
    assert await sqs.receive(url) == []
    (letter,) = await sqs.receive(dead, WaitTimeSeconds=20)
    assert letter["MessageId"] == sent["MessageId"]
    told, last = letter["Attributes"], message["Attributes"]
    assert told["DeadLetterQueueSourceArn"] == (await sqs.attributes(url))["QueueArn"]
    assert told["ApproximateReceiveCount"] == "3"
    first = "ApproximateFirstReceiveTimestamp"
    assert told[first] == last[first]
    assert (await sqs.attributes(url))["ApproximateNumberOfMessages"] == "0"
    await sqs.delete(dead, letter)
    assert (await sqs.attributes(dead))["ApproximateNumberOfMessagesNotVisible"] == "0"


async def test_a_message_is_deleted_after_its_last_lease_before_it_becomes_a_dead_letter(
    sqs: Sqs, clock: ManualClock
) -> None:
    dead = await sqs.create("dead")
    policy = await sqs.redrive_policy(dead)
    url = await sqs.create("q", RedrivePolicy=policy, VisibilityTimeout="5")
    await sqs.send(url, "x")
    (message,) = await sqs.receive(url)
    clock.advance(5_000)
    await sqs.delete(url, message)
    assert await sqs.receive(url) == []
    assert await sqs.receive(dead) == []


async def test_tags_are_set_changed_and_removed(sqs: Sqs) -> None:
    url = (await sqs.create_queue(QueueName="q", tags={"a": "1", "b": "2"}))["QueueUrl"]
    assert (await sqs.list_queue_tags(QueueUrl=url))["Tags"] == {"a": "1", "b": "2"}
    await sqs.tag_queue(QueueUrl=url, Tags={"b": "", "c": "3"})
    await sqs.untag_queue(QueueUrl=url, TagKeys=["a", "none", "aws:sqs:LastModifiedTimestamp"])
    assert (await sqs.list_queue_tags(QueueUrl=url))["Tags"] == {"b": "", "c": "3"}
    for tags in ({"aws:x": "1"}, {"x" * 129: "1"}, {"x": "y" * 257}, {f"t{n}": "" for n in range(49)}):
        refusal = await refused(sqs.tag_queue(QueueUrl=url, Tags=tags))
        assert refusal.code == "InvalidParameterValue"
    await sqs.untag_queue(QueueUrl=url, TagKeys=["b", "c"])
    assert "Tags" not in await sqs.list_queue_tags(QueueUrl=url)


ONLY_SHOWN = {
    "ReceiveMessageWaitTimeSeconds": "20",
    "Policy": '{"Version": "2012-10-17"}',
    "RedriveAllowPolicy": '{"redrivePermission": "allowAll"}',
    "KmsMasterKeyId": "alias/x",
    "KmsDataKeyReusePeriodSeconds": "301",
    "SqsManagedSseEnabled": "false",
}


async def test_attributes_that_are_only_shown_are_compared_and_an_empty_one_is_removed(
    sqs: Sqs, clock: ManualClock
) -> None:
    url = await sqs.create("q", **ONLY_SHOWN)
    shown = await sqs.attributes(url)
    assert {name: shown[name] for name in ONLY_SHOWN} == ONLY_SHOWN
    assert await sqs.create("q", **ONLY_SHOWN) == url
    clock.advance(60_000)
    await sqs.set_queue_attributes(QueueUrl=url, Attributes={"Policy": "", "KmsMasterKeyId": "y"})
    after = await sqs.attributes(url)
    assert "Policy" not in after
    assert after["KmsMasterKeyId"] == "y"
    assert int(after["LastModifiedTimestamp"]) == int(after["CreatedTimestamp"]) + 60


@pytest.mark.parametrize("length", [1_024, 1_025, 8_192])
async def test_a_policy_as_long_as_sqs_takes_it_is_shown_whole(sqs: Sqs, length: int) -> None:
    policy = json.dumps({"Id": "x" * (length - 10)})
    assert len(policy) == length
    url = await sqs.create("q", Policy=policy)
    assert (await sqs.attributes(url, "Policy"))["Policy"] == policy
    assert await sqs.create("q", Policy=policy) == url
    refusal = await refused(sqs.create("q", Policy=policy.replace("xx", "yy")))
    assert refusal.code == "QueueAlreadyExists"
    assert "Tags" not in await sqs.list_queue_tags(QueueUrl=url)
    # A shorter one leaves nothing of the longer one.
    await sqs.set_queue_attributes(QueueUrl=url, Attributes={"Policy": "{}"})
    assert (await sqs.attributes(url, "Policy"))["Policy"] == "{}"
    await sqs.set_queue_attributes(QueueUrl=url, Attributes={"Policy": ""})
    assert "Policy" not in await sqs.attributes(url)
    too_long = {"Policy": json.dumps({"Id": "x" * 8_192})}
    refusal = await refused(sqs.set_queue_attributes(QueueUrl=url, Attributes=too_long))
    assert refusal.code == "InvalidAttributeValue"


async def test_a_restarted_server_has_the_attributes_and_tags(tmp_path: Path) -> None:
    for is_first in (True, False):
        async with serving_sqs(tmp_path / "root") as server:
            assert server.sqs_url is not None
            sqs = Sqs(server.sqs_url)
            if is_first:
                await sqs.create_queue(QueueName="q", Attributes=ONLY_SHOWN, tags={"a": "1"})
            url = (await sqs.get_queue_url(QueueName="q"))["QueueUrl"]
            assert await sqs.attributes(url, *ONLY_SHOWN) == ONLY_SHOWN
            assert (await sqs.list_queue_tags(QueueUrl=url))["Tags"] == {"a": "1"}


async def test_a_queue_is_made_again_as_soon_as_it_is_deleted(sqs: Sqs) -> None:
    for number in range(5):
        url = await sqs.create("q")
        await sqs.send(url, str(number))
        assert [message["Body"] for message in await sqs.receive(url)] == [str(number)]
        await sqs.delete_queue(QueueUrl=url)


async def test_a_new_queue_shows_the_encryption_of_sqs_and_one_kind_at_a_time(sqs: Sqs) -> None:
    url = await sqs.create("q")
    names = ("SqsManagedSseEnabled", "KmsMasterKeyId", "KmsDataKeyReusePeriodSeconds")
    assert await sqs.attributes(url, *names) == {"SqsManagedSseEnabled": "true"}
    both = {"KmsMasterKeyId": "key", "SqsManagedSseEnabled": "true"}
    refusal = await refused(sqs.set_queue_attributes(QueueUrl=url, Attributes=both))
    assert refusal.code == "InvalidAttributeName"
    assert refusal.message == (
        "You can use one type of server-side encryption (SSE) at one time. You can either enable KMS "
        "SSE or SQS SSE."
    )
    key = {"KmsMasterKeyId": "key", "KmsDataKeyReusePeriodSeconds": "6000"}
    await sqs.set_queue_attributes(QueueUrl=url, Attributes=key)
    assert await sqs.attributes(url, *names) == {**key, "SqsManagedSseEnabled": "false"}
    # A default is not shown.
    period = {"KmsDataKeyReusePeriodSeconds": "300"}
    await sqs.set_queue_attributes(QueueUrl=url, Attributes=period)
    assert names[2] not in await sqs.attributes(url)
    await sqs.set_queue_attributes(QueueUrl=url, Attributes={"SqsManagedSseEnabled": "True"})
    assert await sqs.attributes(url, *names) == {"SqsManagedSseEnabled": "true"}


async def test_a_queue_may_be_its_own_dead_letter_queue_and_keeps_its_messages(sqs: Sqs) -> None:
    url = await sqs.create("q")
    policy = await sqs.redrive_policy(url)
    await sqs.set_queue_attributes(QueueUrl=url, Attributes={"RedrivePolicy": policy})
    shown = (await sqs.attributes(url, "RedrivePolicy"))["RedrivePolicy"]
    assert json.loads(shown) == json.loads(policy)
    assert (await sqs.list_dead_letter_source_queues(QueueUrl=url))["queueUrls"] == [url]
    assert await sqs.create("q", RedrivePolicy=policy) == url
    await sqs.send(url, "x")
    for count in ("1", "2", "3"):
        (message,) = await sqs.receive(url)
        assert message["Attributes"]["ApproximateReceiveCount"] == count
        await sqs.change(url, message["ReceiptHandle"], 0)
    other = await sqs.redrive_policy(await sqs.create("dead"))
    assert (await refused(sqs.create("q", RedrivePolicy=other))).code == "QueueAlreadyExists"
    await sqs.set_queue_attributes(QueueUrl=url, Attributes={"RedrivePolicy": other})
    shown = (await sqs.attributes(url, "RedrivePolicy"))["RedrivePolicy"]
    assert json.loads(shown) == json.loads(other)
    refusal = await refused(sqs.create("q", RedrivePolicy=policy))
    assert refusal.code == "QueueAlreadyExists"


async def test_a_redrive_allow_policy_chooses_the_sources_of_a_dead_letter_queue(sqs: Sqs) -> None:
    dead = await sqs.create("dead", RedriveAllowPolicy='{"redrivePermission": "denyAll"}')
    policy = await sqs.redrive_policy(dead)
    refusal = await refused(sqs.create("a", RedrivePolicy=policy))
    assert refusal.code == "InvalidParameterValue"
    assert "doesn't allow a" in refusal.message
    arns = [f"arn:aws:sqs:{REGION}:000000000000:{'x' * 78}{n:02}" for n in range(9)]
    arns.append(f"arn:aws:sqs:{REGION}:000000000000:a")
    allowed = json.dumps({"redrivePermission": "byQueue", "sourceQueueArns": arns})
    await sqs.set_queue_attributes(QueueUrl=dead, Attributes={"RedriveAllowPolicy": allowed})
    assert (await sqs.attributes(dead))["RedriveAllowPolicy"] == allowed
    await sqs.create("a", RedrivePolicy=policy)
    url = await sqs.create("b")
    change = {"RedrivePolicy": policy}
    refusal = await refused(sqs.set_queue_attributes(QueueUrl=url, Attributes=change))
    assert refusal.code == "InvalidParameterValue"
    everyone = {"RedriveAllowPolicy": '{"redrivePermission": "allowAll"}'}
    await sqs.set_queue_attributes(QueueUrl=dead, Attributes=everyone)
    await sqs.set_queue_attributes(QueueUrl=url, Attributes=change)


async def test_a_task_whose_destination_is_deleted_has_failed(sqs: Sqs, clock: ManualClock) -> None:
    dead, target = await sqs.create("dead"), await sqs.create("target")
    await sqs.create("q", RedrivePolicy=await sqs.redrive_policy(dead))
    for body in "abc":
        await sqs.send(dead, body)
    arn = (await sqs.attributes(dead))["QueueArn"]
    started = await sqs.start_message_move_task(
        SourceArn=arn, DestinationArn=arn.replace("dead", "target"), MaxNumberOfMessagesPerSecond=1
    )
    told = json.loads(base64.b64decode(started["TaskHandle"]))
    assert told.keys() == {"taskId", "sourceArn"}
    assert told["sourceArn"] == arn
    await sqs.delete_queue(QueueUrl=target)
    status = "RUNNING"
    while status == "RUNNING":
        clock.advance(1_000)
        (task,) = (await sqs.list_message_move_tasks(SourceArn=arn))["Results"]
        status = task["Status"]
    assert status == "FAILED"
    assert task["FailureReason"] == "AWS.SimpleQueueService.NonExistentQueue"
    assert "TaskHandle" not in task
    assert task["ApproximateNumberOfMessagesToMove"] == 3
    left = (await sqs.attributes(dead))["ApproximateNumberOfMessages"]
    assert int(left) == 3 - task["ApproximateNumberOfMessagesMoved"]


async def test_labels_that_sqs_has_not_written_harm_no_call(sqs: Sqs, server: Server) -> None:
    url = await sqs.create("q.fifo", FifoQueue="true")
    labels = dict.fromkeys(
        (
            f"aws:sqs:{name}"
            for name in ("ReceiveMessageWaitTimeSeconds", "Purges", "RedriveAllowPolicy")
        ),
        "x",
    )
    change = UpdateQueue(name="q.fifo", changes={}, labels=labels)
    await asyncio.wrap_future(server.store.submit(change))
    await sqs.send(url, "x", MessageGroupId="g", MessageDeduplicationId="d")
    assert len(await sqs.receive(url)) == 1
    assert await sqs.receive(url) == []
    await sqs.create("source.fifo", FifoQueue="true", RedrivePolicy=await sqs.redrive_policy(url))


async def test_permissions_are_statements_of_the_queues_policy(sqs: Sqs) -> None:
    url = await sqs.create("q")
    arn = (await sqs.attributes(url, "QueueArn"))["QueueArn"]

    async def shown() -> Any:
        return json.loads((await sqs.attributes(url, "Policy")).get("Policy", "null"))

    def permission(label: str, accounts: list[str], actions: list[str]) -> Any:
        return sqs.add_permission(QueueUrl=url, Label=label, AWSAccountIds=accounts, Actions=actions)

    await permission("one", ["111111111111"], ["SendMessage"])
    await permission("two", ["111111111111", "222222222222"], ["*", "ReceiveMessage"])
    one = {
        "Sid": "one",
        "Effect": "Allow",
        "Principal": {"AWS": "arn:aws:iam::111111111111:root"},
        "Action": "SQS:SendMessage",
        "Resource": arn,
    }
    roots = ["arn:aws:iam::111111111111:root", "arn:aws:iam::222222222222:root"]
    two = {**one, "Sid": "two", "Principal": {"AWS": roots}, "Action": ["SQS:*", "SQS:ReceiveMessage"]}
    policy = {"Version": "2012-10-17", "Id": f"{arn}/SQSDefaultPolicy", "Statement": [one, two]}
    assert await shown() == policy
    refusal = await refused(permission("one", ["111111111111"], ["SendMessage"]))
    assert refusal.message == "Value one for parameter Label is invalid. Reason: Already exists."
    await sqs.remove_permission(QueueUrl=url, Label="one")
    assert await shown() == {**policy, "Statement": [two]}
    refusal = await refused(sqs.remove_permission(QueueUrl=url, Label="one"))
    assert refusal.message == (
        "Value one for parameter Label is invalid. Reason: can't find label on existing policy."
    )
    # Statements that were set as a whole stay beside.
    own = {"Version": "2008-10-17", "Statement": {"Sid": "own", "Effect": "Deny"}}
    await sqs.set_queue_attributes(QueueUrl=url, Attributes={"Policy": json.dumps(own)})
    await permission("one", ["111111111111"], ["SendMessage"])
    assert await shown() == {**own, "Statement": [own["Statement"], one]}
    await sqs.remove_permission(QueueUrl=url, Label="one")
    await sqs.remove_permission(QueueUrl=url, Label="own")
    assert await shown() is None


async def test_a_move_task_between_the_types_of_queues_is_refused(sqs: Sqs) -> None:
    # A message would have no group and no deduplication id, or lose its order.
    policy = {}
    for suffix, more in (("", {}), (".fifo", {"FifoQueue": "true"})):
        dead = await sqs.create(f"dead{suffix}", **more)
        policy[suffix] = (await sqs.attributes(dead, "QueueArn"))["QueueArn"]
        redrive = await sqs.redrive_policy(dead)
        await sqs.create(f"q{suffix}", RedrivePolicy=redrive, **more)
    for source, target in (("", "q.fifo"), (".fifo", "q")):
        arn = policy[""].replace("dead", target)
        call = sqs.start_message_move_task(SourceArn=policy[source], DestinationArn=arn)
        refusal = await refused(call)
        assert (refusal.code, "of the same type" in refusal.message) == ("InvalidParameterValue", True)


async def test_a_task_whose_messages_tell_no_source_says_so_as_sqs_does(sqs: Sqs) -> None:
    dead = await sqs.create("dead")
    arn = (await sqs.attributes(dead, "QueueArn"))["QueueArn"]
    await sqs.create("q", RedrivePolicy=await sqs.redrive_policy(dead))
    await sqs.send(dead, "sent here")
    await sqs.start_message_move_task(SourceArn=arn)
    while (task := (await sqs.list_message_move_tasks(SourceArn=arn))["Results"][0])[
        "Status"
    ] == "RUNNING":
        await asyncio.sleep(0)
    assert (task["Status"], task["FailureReason"]) == ("FAILED", "CouldNotDetermineMessageSource")


async def test_an_allow_policy_without_sources_may_say_so(sqs: Sqs) -> None:
    policy = json.dumps({"redrivePermission": "denyAll", "sourceQueueArns": None})
    url = await sqs.create("q", RedriveAllowPolicy=policy)
    assert (await sqs.attributes(url))["RedriveAllowPolicy"] == policy
