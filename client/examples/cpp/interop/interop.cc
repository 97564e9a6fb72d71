// Lets the tests of tests/interop use this language's client: a line of JSON is a request, a line of
// JSON its answer, as PROTOCOL.md there fixes. No example of how to use the queue: producer.cc and
// worker.cc are.
#include <google/protobuf/util/time_util.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/support/proto_buffer_reader.h>

#include <cstdlib>
#include <future>
#include <iostream>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "client.h"
#include "google/rpc/status.pb.h"
#include "interop/lines.h"

namespace {

namespace v1 = spoolrack::v1;
using example::Failure;
using google::protobuf::util::TimeUtil;
using interop::Json;
using interop::told;

void write(const Json& line) {
    static std::mutex mutex;
    const std::lock_guard lock(mutex);
    std::cout << line.dump() << std::endl;
}

void set_deadline(grpc::ClientContext& context, const Json& asked) {
    if (!asked.contains("timeout_ms")) return;
    context.set_deadline(std::chrono::system_clock::now() +
                         example::milliseconds(asked.at("timeout_ms")));
}

void check(const grpc::Status& status) {
    if (!status.ok()) throw example::SpoolrackError(Failure::of(status));
}

template <class Result>
Json outcome(const Result& result) {
    return result.has_error() ? Json{{"error", told(Failure::of(result.error()))}} : Json::object();
}

class Driver {
 public:
    explicit Driver(const std::string& address) : client_(address), generic_(client_.channel()) {}

    void answer(const Json& asked) {
        Json answer = {{"id", asked.at("id")}};
        try {
            answer["ok"] = done(asked);
        } catch (const example::SpoolrackError& failed) {
            answer["error"] = told(failed.failure());
        }
        write(answer);
    }

 private:
    Json done(const Json& asked) {
        const std::string& op = asked.at("op").get_ref<const std::string&>();
        if (op == "send") return send(asked);
        if (op == "send_stream") return send_stream(asked);
        if (op == "receive") return receive(asked);
        if (op == "delete") return remove(asked);
        if (op == "extend") return extend(asked);
        if (op == "release") return release(asked);
        if (op == "stream") return stream(asked);
        if (op == "cancel") return cancel(asked);
        if (op == "call") return call(asked);
        if (op == "recode") return recode(asked);
        if (op == "status") return status(asked);
        throw std::invalid_argument("no such op: " + op);
    }

    template <class Request, class Response>
    Response ask(grpc::Status (example::Client::Stub::*method)(grpc::ClientContext*, const Request&,
                                                               Response*),
                 Request request, const Json& asked) {
        grpc::ClientContext context;
        set_deadline(context, asked);
        request.set_queue(asked.at("queue"));
        Response response;
        check((client_.stub().*method)(&context, request, &response));
        return response;
    }

    Json send(const Json& asked) {
        v1::SendRequest request;
        for (const Json& message : asked.at("messages"))
            *request.add_messages() = interop::outgoing(message);
        return {
            {"results", told(ask(&example::Client::Stub::Send, std::move(request), asked).results())}};
    }

    Json send_stream(const Json& asked) {
        grpc::ClientContext context;
        set_deadline(context, asked);
        const auto stream = client_.stub().StreamSend(&context);
        Json responses = Json::array();
        // Reads beside: a server whose answers nobody takes stops reading.
        std::thread reading([&] {
            v1::StreamSendResponse response;
            while (stream->Read(&response)) {
                Json one = {{"correlation_id", response.correlation_id()}};
                if (response.has_error()) {
                    one["error"] = told(Failure::of(response.error()));
                } else {
                    one["results"] = told(response.response().results());
                }
                responses.push_back(std::move(one));
            }
        });
        std::int64_t number = 0;
        for (const Json& batch : asked.at("batches")) {
            v1::StreamSendRequest request;
            request.set_correlation_id(++number);
            v1::SendRequest& sending = *request.mutable_request();
            sending.set_queue(asked.at("queue"));
            for (const Json& message : batch) *sending.add_messages() = interop::outgoing(message);
            if (!stream->Write(request)) break;
        }
        stream->WritesDone();
        reading.join();
        check(stream->Finish());
        return {{"responses", std::move(responses)}};
    }

    Json receive(const Json& asked) {
        v1::ReceiveRequest request;
        request.set_max_messages(asked.value("max", 0));
        if (asked.contains("wait_ms")) {
            *request.mutable_wait() = TimeUtil::MillisecondsToDuration(asked.at("wait_ms"));
        }
        if (asked.contains("visibility_ms")) {
            *request.mutable_visibility_timeout() =
                TimeUtil::MillisecondsToDuration(asked.at("visibility_ms"));
        }
        return {{"messages",
                 told(ask(&example::Client::Stub::Receive, std::move(request), asked).messages())}};
    }

    Json remove(const Json& asked) {
        v1::DeleteRequest request;
        for (const Json& receipt : asked.at("receipts")) request.add_targets()->set_receipt(receipt);
        const auto response = ask(&example::Client::Stub::Delete, std::move(request), asked);
        Json results = Json::array();
        for (const auto& result : response.results()) results.push_back(outcome(result));
        return {{"results", std::move(results)}};
    }

    Json release(const Json& asked) {
        v1::ReleaseRequest request;
        for (const Json& receipt : asked.at("receipts")) {
            auto& release = *request.add_releases();
            release.set_receipt(receipt);
            *release.mutable_delay() = TimeUtil::MillisecondsToDuration(0);
        }
        const auto response = ask(&example::Client::Stub::Release, std::move(request), asked);
        Json results = Json::array();
        for (const auto& result : response.results()) results.push_back(outcome(result));
        return {{"results", std::move(results)}};
    }

    Json extend(const Json& asked) {
        v1::ExtendLeasesRequest request;
        for (const Json& receipt : asked.at("receipts")) {
            auto& extension = *request.add_extensions();
            extension.set_receipt(receipt);
            *extension.mutable_visibility_timeout() =
                TimeUtil::MillisecondsToDuration(asked.at("visibility_ms"));
        }
        const auto response = ask(&example::Client::Stub::ExtendLeases, std::move(request), asked);
        Json results = Json::array();
        for (const auto& result : response.results()) {
            Json one = outcome(result);
            if (result.has_lease_expire_time())
                one["due_ms"] = TimeUtil::TimestampToMilliseconds(result.lease_expire_time());
            results.push_back(std::move(one));
        }
        return {{"results", std::move(results)}};
    }

    Json stream(const Json& asked) {
        v1::StreamReceiveRequest request;
        v1::ReceiveStart& start = *request.mutable_start();
        start.set_queue(asked.at("queue"));
        start.set_max_in_flight(asked.value("max_in_flight", 0));
        if (asked.contains("visibility_ms")) {
            *start.mutable_visibility_timeout() =
                TimeUtil::MillisecondsToDuration(asked.at("visibility_ms"));
        }
        const auto context = std::make_shared<grpc::ClientContext>();
        set_deadline(*context, asked);
        const std::string name = asked.at("stream");
        {
            const std::lock_guard lock(mutex_);
            streams_[name] = context;
        }
        std::shared_ptr frames = client_.stub().StreamReceive(context.get());
        frames->Write(request);  // If it fails, the status tells why.
        frames->WritesDone();
        std::thread([context, frames, name] {
            v1::StreamReceiveResponse frame;
            while (frames->Read(&frame))
                write({{"stream", name}, {"messages", told(frame.received().messages())}});
            write({{"stream", name}, {"end", told(Failure::of(frames->Finish()))}});
        }).detach();
        return Json::object();
    }

    Json cancel(const Json& asked) {
        const std::lock_guard lock(mutex_);
        streams_.at(asked.at("stream"))->TryCancel();
        return Json::object();
    }

    // Any method, by its name in the contract.
    Json call(const Json& asked) {
        const std::string request = interop::raw(asked.at("request"));
        const grpc::Slice slice(request);
        const grpc::ByteBuffer bytes(&slice, 1);
        const std::string method = "/" + asked.at("method").get<std::string>();
        grpc::ClientContext context;
        set_deadline(context, asked);
        grpc::ByteBuffer response;
        std::promise<grpc::Status> ended;
        generic_.UnaryCall(&context, method, grpc::StubOptions(), &bytes, &response,
                           [&](grpc::Status status) { ended.set_value(std::move(status)); });
        check(ended.get_future().get());
        grpc::Slice whole;
        check(response.DumpToSingleSlice(&whole));
        return {
            {"response", interop::text({reinterpret_cast<const char*>(whole.begin()), whole.size()})}};
    }

    static Json recode(const Json& asked) {
        const auto* type = google::protobuf::DescriptorPool::generated_pool()->FindMessageTypeByName(
            asked.at("type").get<std::string>());
        const std::unique_ptr<google::protobuf::Message> message(
            google::protobuf::MessageFactory::generated_factory()->GetPrototype(type)->New());
        if (!message->ParseFromString(interop::raw(asked.at("binary"))))
            throw std::invalid_argument("unreadable");
        return {{"binary", interop::text(message->SerializeAsString())}};
    }

    static Json status(const Json& asked) {
        const std::string details = interop::raw(asked.at("binary"));
        google::rpc::Status rich;
        if (!rich.ParseFromString(details)) throw std::invalid_argument("unreadable");
        const grpc::Status status(static_cast<grpc::StatusCode>(rich.code()), rich.message(), details);
        return {{"error", told(Failure::of(status))}};
    }

    example::Client client_;
    grpc::GenericStub generic_;
    std::mutex mutex_;
    std::map<std::string, std::shared_ptr<grpc::ClientContext>> streams_;
};

}  // namespace

int main(int, char** argv) {
    Driver driver(argv[1]);
    write({{"ready", true}});
    for (std::string line; std::getline(std::cin, line);) {
        // A thread for each request: a long poll keeps nobody waiting. What none of them foresaw ends
        // the process, and the test sees it.
        std::thread([&driver, asked = Json::parse(line)] { driver.answer(asked); }).detach();
    }
    std::_Exit(0);  // streams and polls may still wait for what nobody hears
}
