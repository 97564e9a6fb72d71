// A channel to a Spoolrack server, how calls are made on it, and what their failures say.
#pragma once

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <stdexcept>
#include <stop_token>
#include <string>

#include "google/rpc/status.pb.h"
#include "spoolrack/v1/queue_service.grpc.pb.h"

namespace example {

using std::chrono::milliseconds;

// Why a call failed, or one message of many: the same facts, from a gRPC status or from an answer.
struct Failure {
    grpc::StatusCode code;
    // Whose reason it is: "spoolrack"; empty if no Spoolrack server said it.
    std::string domain;
    // A stable name such as QUEUE_NOT_FOUND (docs/reference/errors.md lists them). Empty if no Spoolrack server
    // said it, as when there is no connection.
    std::string reason;
    // For a person.
    std::string message;
    // How long the server asks to wait before a repetition, if it says anything of one.
    std::optional<milliseconds> retry_delay;
    // The facts of the message, for programs.
    std::map<std::string, std::string> metadata;

    static Failure of(const grpc::Status& status);
    // What the result of one message says.
    static Failure of(const google::rpc::Status& rich);

    // Whether the same again may succeed. With a reason the server has decided that; without one, there
    // was no answer: for a call that may be repeated, as all of these examples may, that is worth
    // another try.
    bool may_pass() const;

    // The reason, or the name of the code where there is none.
    std::string name() const;
};

// A call that failed for good: a repetition can't help, or there was no time for more of them.
class SpoolrackError : public std::runtime_error {
 public:
    explicit SpoolrackError(Failure failure);
    const Failure& failure() const { return failure_; }

 private:
    Failure failure_;
};

// How long to wait before a repetition: a random time up to a bound that doubles, on top of what the
// server asked for. Random, or all whom a server turned away would be back at one moment. Not
// thread-safe.
class Backoff {
 public:
    milliseconds after(const Failure& failure);
    void reset() { failures_ = 0; }

 private:
    int failures_ = 0;
    std::minstd_rand random_{std::random_device{}()};
};

// Thread-safe; one is enough for a program.
class Client {
 public:
    using Stub = spoolrack::v1::QueueService::StubInterface;

    // Connects on the first call. `address` is host:port. Once it is to stop, pauses end, and what
    // fails isn't repeated.
    explicit Client(const std::string& address, std::stop_token stop = {});

    // For streams, which have no deadline.
    Stub& stub() { return *stub_; }

    const std::shared_ptr<grpc::Channel>& channel() const { return channel_; }

    // Makes a call that may be repeated, and repeats it as long as that may help. Throws
    // SpoolrackError.
    template <class Request, class Response>
    Response call(grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                  const Request& request) {
        Backoff backoff;
        const auto end = std::chrono::steady_clock::now() + kPatience;
        while (true) {
            grpc::ClientContext context;  // of one attempt: it can't be used again
            context.set_deadline(std::chrono::system_clock::now() + kDeadline);
            Response response;
            const grpc::Status status = ((*stub_).*method)(&context, request, &response);
            if (status.ok()) return response;
            Failure failure = Failure::of(status);
            const milliseconds pause = backoff.after(failure);
            const bool in_vain = !failure.may_pass() || std::chrono::steady_clock::now() + pause > end;
            if (in_vain || stopped_within(pause)) throw SpoolrackError(std::move(failure));
        }
    }

    // Waits so long, or until it is to stop: then at once true.
    bool stopped_within(milliseconds pause) const;

 private:
    // How long one attempt may take.
    static constexpr std::chrono::seconds kDeadline{10};
    // How long a call is repeated before its failure is thrown: a restart of the server takes less.
    static constexpr std::chrono::seconds kPatience{30};

    const std::stop_token stop_;
    std::shared_ptr<grpc::Channel> channel_;
    std::unique_ptr<Stub> stub_;
};

google::protobuf::Duration to_duration(milliseconds span);
milliseconds to_milliseconds(const google::protobuf::Duration& duration);

}  // namespace example
