// Works on the messages of a queue until SIGTERM or Ctrl-C: streams them, keeps their leases, deletes
// what is done, releases what failed or was never begun, and outlives restarts of the server.
//
//   worker HOST:PORT QUEUE
//
// Three kinds of threads: the main one reads the stream, a few work, and one extends the leases. The
// server's credits bound what waits here, so that nothing else has to.
#include <pthread.h>
#include <signal.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <iostream>
#include <mutex>
#include <optional>
#include <stop_token>
#include <syncstream>
#include <thread>
#include <vector>

#include "client.h"
#include "leases.h"

namespace {

using example::Backoff;
using example::Client;
using example::Failure;
using example::Leases;
using example::milliseconds;
using example::SpoolrackError;
using spoolrack::v1::Message;

constexpr int kThreads = 4;
// How many messages we hold at most: those that are worked on, and a few that wait.
constexpr int kMaxInFlight = 10;

template <class... Words>
void say(const Words&... words) {
    std::osyncstream out(std::cout);
    const char* between = "";
    ((out << between << words, between = " "), ...);
    out << std::endl;
}

// SIGTERM and SIGINT as a request to stop. Made before any other thread, since those inherit its mask.
class Signals {
 public:
    Signals() {
        sigemptyset(&set_);
        sigaddset(&set_, SIGTERM);
        sigaddset(&set_, SIGINT);
        pthread_sigmask(SIG_BLOCK, &set_, nullptr);
        thread_ = std::thread([this] {
            int signal = 0;
            sigwait(&set_, &signal);
            source_.request_stop();
        });
    }
    ~Signals() {
        pthread_kill(thread_.native_handle(), SIGTERM);
        thread_.join();
    }
    Signals(const Signals&) = delete;
    Signals& operator=(const Signals&) = delete;

    std::stop_token stop() const { return source_.get_token(); }

 private:
    sigset_t set_{};
    std::stop_source source_;
    std::thread thread_;
};

class Worker {
 public:
    Worker(Client& client, const std::string& queue)
        : client_(client), queue_(queue), leases_(client, queue) {
        for (int i = 0; i < kThreads; ++i) threads_.emplace_back([this] { settle_all(); });
    }

    // Finishes what is nearly done, and gives the rest back: others can have it at once.
    ~Worker() {
        std::vector<Message> never;
        {
            const std::lock_guard lock(mutex_);
            closed_ = true;
            never.assign(std::make_move_iterator(waiting_.begin()),
                         std::make_move_iterator(waiting_.end()));
            waiting_.clear();
        }
        changed_.notify_all();
        try {
            leases_.release(never, false);
        } catch (const SpoolrackError& error) {
            std::cerr << "worker: could not give messages back: " << error.what() << std::endl;
        }
        threads_.clear();  // joins them
    }
    Worker(const Worker&) = delete;
    Worker& operator=(const Worker&) = delete;

    // Works until it is stopped, through any number of connections. Throws SpoolrackError if the stream
    // fails in a way that no repetition mends, such as a queue that isn't there.
    void run(std::stop_token stop) {
        Backoff backoff;
        while (true) {
            const Failure failure = stream(stop, backoff);
            if (stop.stop_requested()) return;
            if (!failure.may_pass()) throw SpoolrackError(failure);
            say("reconnecting", failure.name());
            if (client_.stopped_within(backoff.after(failure))) return;
        }
    }

 private:
    // Takes messages until the stream ends; returns why it did.
    Failure stream(std::stop_token stop, Backoff& backoff) {
        spoolrack::v1::StreamReceiveRequest request;
        request.mutable_start()->set_queue(queue_);
        request.mutable_start()->set_max_in_flight(kMaxInFlight);
        grpc::ClientContext context;
        const auto frames = client_.stub().StreamReceive(&context);
        frames->Write(request);  // If it fails, the status tells why.
        frames->WritesDone();
        const std::stop_callback cancel(stop, [&] { context.TryCancel(); });
        spoolrack::v1::StreamReceiveResponse frame;
        while (frames->Read(&frame)) {
            backoff.reset();
            const std::lock_guard lock(mutex_);
            for (Message& message : *frame.mutable_received()->mutable_messages()) {
                leases_.add(message);
                waiting_.push_back(std::move(message));
            }
            changed_.notify_all();
        }
        const grpc::Status status = frames->Finish();
        return Failure::of(
            status.ok() ? grpc::Status(grpc::StatusCode::UNAVAILABLE, "the server ended the stream")
                        : status);
    }

    void settle_all() {
        while (const std::optional<Message> message = next()) {
            // A message whose lease was lost while it waited comes again, to whomever.
            if (leases_.holds(*message)) settle(*message);
        }
    }

    std::optional<Message> next() {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return closed_ || !waiting_.empty(); });
        if (closed_) return std::nullopt;
        Message message = std::move(waiting_.front());
        waiting_.pop_front();
        return message;
    }

    void settle(const Message& message) {
        try {
            if (!succeeded(message)) {
                // At once. One that fails for a while is better extended by the pause that it shall
                // have, and not released: then it doesn't go round and round, and keeps its credit.
                leases_.release({message}, true);
                say("released", message.id());
            } else if (leases_.remove(message)) {
                // Deleted only now: if we died before, the message would come again.
                say("done", message.id(), message.body());
            } else {
                say("late", message.id());  // somebody else has it, or will
            }
        } catch (const SpoolrackError& error) {
            std::cerr << "worker: " << message.id() << " comes again: " << error.what() << std::endl;
        }
    }

    bool succeeded(const Message& message) {
        try {
            return work(message);
        } catch (const std::exception& error) {
            // Whatever goes wrong in there must not keep the message leased for ever.
            std::cerr << "worker: " << message.id() << " failed: " << error.what() << std::endl;
            return false;
        }
    }

    // Stands for your own work; false if it failed. What it does is in the attributes: "fails" at the
    // first receive; "slow" takes so many milliseconds, be it longer than a lease, and begins with a
    // fresh one. What takes long must see that we stop, and give up.
    bool work(const Message& message) {
        const auto& attributes = message.attributes();
        if (message.receive_count() == 1 && attributes.contains("fails")) return false;
        if (const auto slow = attributes.find("slow"); slow != attributes.end()) {
            leases_.extend(message);
            say("extended", message.id());
            const milliseconds span(std::stol(slow->second.string_value()));
            std::unique_lock lock(mutex_);
            return !changed_.wait_for(lock, span, [&] { return closed_; });
        }
        return true;
    }

    Client& client_;
    const std::string queue_;
    Leases leases_;
    std::mutex mutex_;
    std::condition_variable_any changed_;
    std::deque<Message> waiting_;
    bool closed_ = false;
    std::vector<std::jthread> threads_;
};

}  // namespace

int main(int argc, char** argv) {
    if (argc != 3) {
        std::cerr << "usage: worker HOST:PORT QUEUE\n";
        return 2;
    }
    const Signals signals;
    const std::stop_token stop = signals.stop();
    try {
        Client client(argv[1], stop);
        Worker worker(client, argv[2]);
        worker.run(stop);
    } catch (const std::exception& error) {
        std::cerr << "worker: " << error.what() << std::endl;
        if (!stop.stop_requested()) return 1;
    }
    say("stopped");
    return 0;
}
