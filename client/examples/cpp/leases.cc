#include "leases.h"

#include <iostream>
#include <utility>

namespace example {

using spoolrack::v1::DeleteRequest;
using spoolrack::v1::ExtendLeasesRequest;
using spoolrack::v1::ReleaseRequest;

namespace {

constexpr int kMost = 1'000;                            // what one call may change
constexpr std::chrono::seconds kDefaultVisibility{30};  // of a queue whose settings say nothing of it

milliseconds visibility_of(Client& client, const std::string& queue) {
    spoolrack::v1::GetQueueRequest request;
    request.set_name(queue);
    const auto response = client.call(&Client::Stub::GetQueue, request);
    const auto& settings = response.queue().settings();
    return settings.has_visibility_timeout() ? to_milliseconds(settings.visibility_timeout())
                                             : kDefaultVisibility;
}

}  // namespace

Leases::Leases(Client& client, std::string queue)
    : client_(client),
      queue_(std::move(queue)),
      visibility_(visibility_of(client, queue_)),
      keeper_([this](std::stop_token stop) { keep(stop); }) {}

void Leases::add(const Message& message) {
    const std::lock_guard lock(mutex_);
    held_[message.receipt()] = message.id();
}

bool Leases::holds(const Message& message) {
    const std::lock_guard lock(mutex_);
    return held_.contains(message.receipt());
}

bool Leases::remove(const Message& message) {
    drop(message.receipt());
    DeleteRequest request;
    request.set_queue(queue_);
    request.add_targets()->set_receipt(message.receipt());
    const auto response = client_.call(&Client::Stub::Delete, request);
    if (!response.results(0).has_error()) return true;
    Failure failure = Failure::of(response.results(0).error());
    if (failure.reason == "STALE_RECEIPT") return false;
    throw SpoolrackError(std::move(failure));
}

void Leases::release(const std::vector<Message>& messages, bool begun) {
    for (auto next = messages.begin(); next != messages.end();) {
        ReleaseRequest request;
        request.set_queue(queue_);
        for (; next != messages.end() && request.releases_size() < kMost; ++next) {
            drop(next->receipt());
            auto& release = *request.add_releases();
            release.set_receipt(next->receipt());
            *release.mutable_delay() = to_duration(milliseconds(0));
            release.set_uncounted(!begun);
        }
        client_.call(&Client::Stub::Release, request);
    }
}

void Leases::extend(const Message& message) {
    extend(ById{{message.receipt(), message.id()}});
}

void Leases::extend(const ById& leases) {
    for (auto next = leases.begin(); next != leases.end();) {
        ExtendLeasesRequest request;
        request.set_queue(queue_);
        auto lease = next;
        for (; next != leases.end() && request.extensions_size() < kMost; ++next) {
            auto& extension = *request.add_extensions();
            extension.set_receipt(next->first);
            *extension.mutable_visibility_timeout() = to_duration(visibility_);
        }
        const auto response = client_.call(&Client::Stub::ExtendLeases, request);
        for (const auto& result : response.results()) {
            const auto& [receipt, id] = *lease++;
            if (!result.has_error()) continue;
            const std::lock_guard lock(mutex_);
            // A message that was deleted or released meanwhile has no lease any more, and needs none.
            if (held_.erase(receipt)) {
                std::cerr << "worker: lost " << id << ": " << result.error().message() << std::endl;
            }
        }
    }
}

void Leases::drop(const std::string& receipt) {
    const std::lock_guard lock(mutex_);
    held_.erase(receipt);
}

void Leases::keep(std::stop_token stop) {
    std::unique_lock lock(mutex_);
    while (!changed_.wait_for(lock, stop, visibility_ / 3, [&] { return stop.stop_requested(); })) {
        const ById held = held_;
        lock.unlock();
        try {
            extend(held);
        } catch (const SpoolrackError& error) {
            // The server may be back before the leases are over.
            std::cerr << "worker: leases could not be extended: " << error.what() << std::endl;
        }
        lock.lock();
    }
}

}  // namespace example
