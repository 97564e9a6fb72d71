#include "client.h"

#include <google/protobuf/util/time_util.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <mutex>
#include <utility>

#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

namespace example {
namespace {

using google::protobuf::util::TimeUtil;

grpc::ChannelArguments channel_arguments() {
    grpc::ChannelArguments arguments;
    // A message may have 64 MiB; the server's own limits say which.
    arguments.SetMaxReceiveMessageSize(-1);
    arguments.SetMaxSendMessageSize(-1);
    // A restarted server shall be found within moments; the default backs off for up to two minutes.
    arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
    arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 1'000);
    arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 2'000);
    // A server that vanished without a word is found out while a call or a stream waits for it.
    arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 15'000);
    arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 10'000);
    // gRPC pings for reasons of its own, too, and waits a minute for the answer to such a one.
    arguments.SetInt("grpc.http2.ping_timeout_ms", 10'000);
    return arguments;
}

}  // namespace

Failure Failure::of(const grpc::Status& status) {
    google::rpc::Status rich;
    // Empty where no server said it.
    rich.ParseFromString(status.error_details());
    rich.set_code(status.error_code());
    rich.set_message(status.error_message());
    return of(rich);
}

Failure Failure::of(const google::rpc::Status& rich) {
    Failure failure{static_cast<grpc::StatusCode>(rich.code()), "", "", rich.message(), std::nullopt, {}};
    for (const google::protobuf::Any& detail : rich.details()) {
        google::rpc::ErrorInfo info;
        google::rpc::RetryInfo retry;
        if (detail.UnpackTo(&info)) {
            failure.domain = info.domain();
            failure.reason = info.reason();
            failure.metadata = {info.metadata().begin(), info.metadata().end()};
        } else if (detail.UnpackTo(&retry)) {
            failure.retry_delay = to_milliseconds(retry.retry_delay());
        }
    }
    return failure;
}

bool Failure::may_pass() const {
    if (!reason.empty()) return retry_delay.has_value();
    // Without a reason it is gRPC's status, or a proxy's on the way: with these codes the server gave no answer.
    switch (code) {
        case grpc::StatusCode::UNAVAILABLE:
        case grpc::StatusCode::DEADLINE_EXCEEDED:
        case grpc::StatusCode::CANCELLED:
        case grpc::StatusCode::INTERNAL:
        case grpc::StatusCode::UNKNOWN:
        case grpc::StatusCode::RESOURCE_EXHAUSTED:
            return true;
        default:
            return false;
    }
}

std::string Failure::name() const {
    static constexpr std::array kNames = {
        "OK",        "CANCELLED",      "UNKNOWN",           "INVALID_ARGUMENT",   "DEADLINE_EXCEEDED",
        "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION",
        "ABORTED",   "OUT_OF_RANGE",   "UNIMPLEMENTED",     "INTERNAL",           "UNAVAILABLE",
        "DATA_LOSS", "UNAUTHENTICATED"};
    if (!reason.empty()) return reason;
    const auto number = static_cast<std::size_t>(code);
    return number < kNames.size() ? kNames[number] : std::to_string(code);
}

SpoolrackError::SpoolrackError(Failure failure)
    : std::runtime_error(failure.name() + ": " + failure.message), failure_(std::move(failure)) {}

milliseconds Backoff::after(const Failure& failure) {
    const long bound = std::min(5'000L, 100L << std::min(failures_++, 16));
    const milliseconds pause(std::uniform_int_distribution<long>(0, bound)(random_));
    return pause + failure.retry_delay.value_or(milliseconds(0));
}

Client::Client(const std::string& address, std::stop_token stop)
    : stop_(std::move(stop)),
      channel_(
          grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), channel_arguments())),
      stub_(spoolrack::v1::QueueService::NewStub(channel_)) {}

bool Client::stopped_within(milliseconds pause) const {
    std::mutex mutex;
    std::unique_lock lock(mutex);
    std::condition_variable_any never;  // but for the stop
    return never.wait_for(lock, stop_, pause, [this] { return stop_.stop_requested(); });
}

milliseconds to_milliseconds(const google::protobuf::Duration& duration) {
    return milliseconds(TimeUtil::DurationToMilliseconds(duration));
}

google::protobuf::Duration to_duration(milliseconds span) {
    return TimeUtil::MillisecondsToDuration(span.count());
}

}  // namespace example
