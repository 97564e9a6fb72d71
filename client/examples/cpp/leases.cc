#include "leases.h"

#include <iostream>
#include <utility>

namespace example {

using spoolrack::v1::ChangeVisibilityRequest;
using spoolrack::v1::DeleteRequest;

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

void Leases::release(const std::vector<Message>& messages) {
    ById leases;
    for (const Message& message : messages) {
        drop(message.receipt());
        leases[message.receipt()] = message.id();
    }
    change(leases, milliseconds(0));
}

void Leases::extend(const Message& message) {
    change({{message.receipt(), message.id()}}, visibility_);
}

void Leases::change(const ById& leases, milliseconds visibility) {
    for (auto next = leases.begin(); next != leases.end();) {
        ChangeVisibilityRequest request;
        request.set_queue(queue_);
        auto lease = next;
        for (; next != leases.end() && request.changes_size() < kMost; ++next) {
            auto& change = *request.add_changes();
            change.set_receipt(next->first);
            *change.mutable_visibility_timeout() = to_duration(visibility);
        }
        const auto response = client_.call(&Client::Stub::ChangeVisibility, request);
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
            change(held, visibility_);
        } catch (const SpoolrackError& error) {
            // The server may be back before the leases are over.
            std::cerr << "worker: leases could not be extended: " << error.what() << std::endl;
        }
        lock.lock();
    }
}

}  // namespace example
