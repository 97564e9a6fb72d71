"""AWS Query by raw requests: forms in, XML out, errors as old SDKs read them."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from io import BytesIO
from urllib.parse import urlencode
from xml.etree import ElementTree

import aiohttp
import pytest
from spoolrack_server.process.server import Server
from spoolrack_server.sqs.query_protocol import parameters_in
from yarl import URL

from tests.support import MIB
from tests.support.sqs_rig import Sqs, raw, refused, until_ended

NAMESPACE = "{http://queue.amazonaws.com/doc/2012-11-05/}"


@dataclass(frozen=True)
class Answer:
    status: int
    root: ElementTree.Element

    def text(self, path: str) -> str:
        found = self.root.find("/".join(NAMESPACE + step for step in path.split("/")))
        assert found is not None, ElementTree.tostring(self.root)
        return found.text or ""

    def texts(self, path: str) -> list[str]:
        found = self.root.findall("/".join(NAMESPACE + step for step in path.split("/")))
        return [each.text or "" for each in found]


async def ask(
    server: Server, form: dict[str, str], path: str = "/", method: str = "POST", **headers: str
) -> Answer:
    async with aiohttp.ClientSession() as session:
        sent = {"params": form} if method == "GET" else {"data": form}
        async with session.request(
            method, f"{server.sqs_url}{path}", headers=headers, **sent
        ) as response:
            assert response.content_type == "text/xml"
            return Answer(response.status, ElementTree.fromstring(await response.read()))


async def test_a_queues_url_may_be_the_path_or_a_parameter(server: Server, sqs: Sqs) -> None:
    made = await ask(server, {"Action": "CreateQueue", "QueueName": "q", "Version": "2012-11-05"})
    assert made.root.tag == f"{NAMESPACE}CreateQueueResponse"
    url = made.text("CreateQueueResult/QueueUrl")
    assert made.text("ResponseMetadata/RequestId")
    body = "a + b\r\n<&> ä"
    by_path = await ask(server, {"Action": "SendMessage", "MessageBody": body}, "/000000000000/q")
    assert by_path.status == 200
    by_parameter = {"Action": "SendMessage", "MessageBody": body, "QueueUrl": url}
    assert (await ask(server, by_parameter)).status == 200
    got = await ask(server, {"Action": "ReceiveMessage", "MaxNumberOfMessages": "10"}, "/x/q")
    assert got.texts("ReceiveMessageResult/Message/Body") == [body, body]


@pytest.mark.parametrize("body", ["100%25", "100%", "a%2Bb + c", "?a=1&b=%26;#%", "%C3%A4 \u00e4"])
async def test_a_parameter_in_the_url_is_decoded_once(server: Server, sqs: Sqs, body: str) -> None:
    # What the client encoded once is what it sent: the body, and so the MD5 of the response.
    await sqs.create("q")
    query = urlencode({"Action": "SendMessage", "MessageBody": body})
    url = URL(f"{server.sqs_url}/000000000000/q?{query}", encoded=True)
    async with aiohttp.ClientSession() as session, session.post(url) as response:
        answer = Answer(response.status, ElementTree.fromstring(await response.read()))
    sent = hashlib.md5(body.encode(), usedforsecurity=False).hexdigest()
    assert answer.text("SendMessageResult/MD5OfMessageBody") == sent
    (got,) = await sqs.receive("/x/q")
    assert got["Body"] == body


def test_an_unescaped_plus_and_an_empty_list_are_read_as_they_were_meant() -> None:
    entry = {"Name": "a", "Value.DataType": "Binary", "Value.BinaryValue": " /8="}
    form = {f"MessageAttribute.1.{name}": value for name, value in entry.items()}
    found = parameters_in({**form, "AttributeNames": ""}, "/")
    assert found.structures("MessageAttributes")["a"].text("BinaryValue") == "+/8="
    assert found.texts("AttributeNames") == []


async def test_a_field_with_an_endless_name_is_refused(server: Server) -> None:
    longest = {"Action": "ListQueues", "x" * 200: ""}
    assert (await ask(server, longest)).status == 200
    refusal = await ask(server, {**longest, "x" * 201: ""})
    assert (refusal.status, "over 200 characters" in refusal.text("Error/Message")) == (400, True)


async def test_a_call_to_another_service_is_told_the_service_of_this_port(server: Server) -> None:
    answer = await raw(server, "", {}, **{"X-Amz-Target": "DynamoDB_20120810.ListTables"})
    assert (answer.status, "AmazonSQS.<operation>" in answer.json["message"]) == (400, True)


async def test_lists_and_maps_are_flattened(server: Server, sqs: Sqs) -> None:
    form = {
        "Action": "CreateQueue",
        "QueueName": "q",
        "Attribute.1.Name": "VisibilityTimeout",
        "Attribute.1.Value": "7",
        "Attribute.2.Name": "DelaySeconds",
        "Attribute.2.Value": "0",
        "Tag.1.Key": "k",
        "Tag.1.Value": "v",
    }
    url = (await ask(server, form)).text("CreateQueueResult/QueueUrl")
    assert (await sqs.attributes(url, "VisibilityTimeout")) == {"VisibilityTimeout": "7"}
    wanted = {"Action": "GetQueueAttributes", "AttributeName.1": "DelaySeconds", "QueueUrl": url}
    found = await ask(server, wanted)
    assert found.text("GetQueueAttributesResult/Attribute/Name") == "DelaySeconds"
    assert found.text("GetQueueAttributesResult/Attribute/Value") == "0"
    entry = "SendMessageBatchRequestEntry"
    batch = {"Action": "SendMessageBatch", "QueueUrl": url}
    for n in range(1, 11):
        batch |= {f"{entry}.{n}.Id": f"e{n}", f"{entry}.{n}.MessageBody": f"m{n}"}
    batch |= {
        f"{entry}.10.MessageAttribute.1.Name": "a",
        f"{entry}.10.MessageAttribute.1.Value.DataType": "Binary",
        f"{entry}.10.MessageAttribute.1.Value.BinaryValue": "+/8=",
    }
    sent = await ask(server, batch)
    path = "SendMessageBatchResult/SendMessageBatchResultEntry/Id"
    assert sent.texts(path) == [f"e{n}" for n in range(1, 11)]
    messages = await sqs.receive(url)
    assert [message["Body"] for message in messages] == [f"m{n}" for n in range(1, 11)]
    assert messages[9]["MessageAttributes"]["a"]["BinaryValue"] == b"\xfb\xff"


@pytest.mark.parametrize(
    ("form", "code"),
    [
        ({}, "MissingAction"),
        ({"Action": "Dance"}, "InvalidAction"),
        (
            {"Action": "ReceiveMessage", "QueueUrl": "/q", "MaxNumberOfMessages": "x"},
            "SerializationException",
        ),
    ],
)
async def test_errors_are_those_of_the_query_years(
    server: Server, form: dict[str, str], code: str
) -> None:
    answer = await ask(server, form)
    assert answer.root.tag == f"{NAMESPACE}ErrorResponse"
    assert (answer.status, answer.text("Error/Code")) == (400, code)
    assert answer.text("Error/Type") == "Sender"
    assert answer.text("Error/Message")
    assert answer.text("RequestId")


async def test_a_form_that_isnt_text_is_refused(server: Server) -> None:
    for data in (b"Action=SendMessage&MessageBody=%ff", b"\xff", b"a" + b"&a" * 3_000):
        async with (
            aiohttp.ClientSession() as session,
            session.post(f"{server.sqs_url}/", data=data) as response,
        ):
            assert response.status == 400
            assert b"<Code>SerializationException</Code>" in await response.read()


async def test_a_page_of_another_site_can_send_no_form(server: Server, sqs: Sqs) -> None:
    await sqs.create("q")
    form = {"Action": "DeleteQueue", "QueueUrl": "/q"}
    assert (await ask(server, form, Origin="https://example.com")).status == 403
    site = {"Sec-Fetch-Site": "cross-site"}
    assert (await ask(server, form, "/", "GET", **site)).status == 403
    # Over plain HTTP to another machine, a browser tells of no site.
    answer = await ask(server, form, "/", "GET")
    assert (answer.status, answer.text("Error/Code")) == (400, "InvalidAction")
    reading = {"Action": "GetQueueUrl", "QueueName": "q"}
    assert (await ask(server, reading, "/", "GET")).status == 200
    assert "QueueUrls" in await sqs.list_queues()
    await until_ended(server, "DeleteQueue", "200", 0)


async def get(server: Server, path: str, form: dict[str, str], **headers: str) -> tuple[int, str, str]:
    """Return the status, the content type and the body."""
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"{server.sqs_url}{path}", params=form, headers=headers) as response,
    ):
        return response.status, response.content_type, await response.text()


JSON = {"Accept": "application/json"}
QUEUE = "/000000000000/q"


@pytest.mark.parametrize("accept", [{}, JSON], ids=["", "json"])
async def test_a_queues_url_without_an_action_has_no_operation(
    server: Server, sqs: Sqs, accept: dict[str, str]
) -> None:
    await sqs.create("q")
    status, kind, text = await get(server, QUEUE, {}, **accept)
    assert (status, kind) == (404, "text/xml")
    assert text.endswith("<UnknownOperationException/>")


@pytest.mark.parametrize("action", ["ListQueues", "CreateQueue"])
async def test_a_queues_url_has_only_the_operations_of_a_queue(
    server: Server, sqs: Sqs, action: str
) -> None:
    await sqs.create("q")
    form = {"Action": action, "QueueName": "other"}
    answer = await ask(server, form, QUEUE, "GET")
    assert (answer.status, answer.text("Error/Code")) == (400, "InvalidAction")
    told = f"The action {action} is not valid for this endpoint."
    assert answer.text("Error/Message") == told
    status, kind, text = await get(server, QUEUE, form, **JSON)
    assert (status, kind) == (400, "application/json")
    error = json.loads(text)["Error"]
    assert (error["Type"], error["Code"], error["Message"]) == ("Sender", "InvalidAction", told)
    assert len((await sqs.list_queues())["QueueUrls"]) == 1
    # Another queue's URL is told, though.
    other = await get(server, QUEUE, {"Action": "GetQueueUrl", "QueueName": "q"})
    assert other[0] == 200


async def test_a_client_that_accepts_json_gets_it(server: Server, sqs: Sqs) -> None:
    await sqs.create("q", VisibilityTimeout="7")
    form = {"Action": "GetQueueAttributes", "AttributeName.1": "VisibilityTimeout"}
    status, kind, text = await get(server, QUEUE, form, **JSON)
    assert (status, kind) == (200, "application/json")
    told = json.loads(text)["GetQueueAttributesResponse"]
    shown = [{"Name": "VisibilityTimeout", "Value": "7"}]
    assert told["GetQueueAttributesResult"] == {"Attributes": shown}
    assert told["ResponseMetadata"]["RequestId"]
    listed = json.loads((await get(server, "/", {"Action": "ListQueues"}, **JSON))[2])
    urls = listed["ListQueuesResponse"]["ListQueuesResult"]["queueUrls"]
    assert urls == (await sqs.list_queues())["QueueUrls"]
    await sqs.send(QUEUE, "x", MessageAttributes={"a": {"DataType": "String", "StringValue": "b"}})
    receive = {"Action": "ReceiveMessage", "AttributeName": "All", "MessageAttributeName.1": "*"}
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{server.sqs_url}{QUEUE}", data=receive, headers=JSON) as response,
    ):
        (message,) = (await response.json())["ReceiveMessageResponse"]["ReceiveMessageResult"][
            "messages"
        ]
    assert message["Body"] == "x"
    value = {"StringValue": "b", "DataType": "String"}
    assert message["MessageAttributes"] == [{"Name": "a", "Value": value}]


async def test_a_missing_queue_is_told_in_the_words_of_each_protocol(server: Server, sqs: Sqs) -> None:
    form = {"Action": "ReceiveMessage", "QueueUrl": "/none"}
    told = "The specified queue does not exist for this wsdl version."
    assert (await ask(server, form)).text("Error/Message") == told
    refusal = await refused(sqs.receive("/none"))
    assert refusal.message == "The specified queue does not exist."


@pytest.mark.parametrize(
    ("method", "headers", "told"),
    [
        ("GET", {"X-Amz-Target": "AmazonSQS.ListQueues"}, "AWS JSON 1.0 is sent by POST."),
        ("PUT", {}, "AWS Query is sent by POST or GET."),
    ],
)
async def test_a_request_by_another_method_is_told_the_one_of_its_protocol(
    server: Server, method: str, headers: dict[str, str], told: str
) -> None:
    async with (
        aiohttp.ClientSession() as session,
        session.request(
            method,
            f"{server.sqs_url}/?Action=ListQueues",
            headers={"Accept": "application/json", **headers},
        ) as response,
    ):
        answer = json.loads(await response.read())
    found = answer["Error"]["Message"] if "Error" in answer else answer["message"]
    assert (response.status, found) == (400, told)


@pytest.mark.parametrize("more", [0, 1])
async def test_a_request_has_a_largest_size(server: Server, more: int) -> None:
    size = 8 * MIB + more
    form = b"Action=ListQueues&Version=".ljust(size, b"x")
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{server.sqs_url}/", data=BytesIO(form)) as response,
    ):
        text = await response.text()
    assert (response.status, f"The request has over {8 * MIB} bytes." in text) == (
        (400, True) if more else (200, False)
    )
