// Sends messages to a queue, in batches.
//
//   producer HOST:PORT QUEUE COUNT
#include <openssl/sha.h>

#include <algorithm>
#include <iostream>
#include <string>
#include <thread>

#include "client.h"

namespace {

using example::Client;
using example::Failure;
using example::SpoolrackError;
using spoolrack::v1::OutgoingMessage;
using spoolrack::v1::SendRequest;

constexpr int kBatch = 100;

std::string sha256(const std::string& bytes) {
    std::string digest(SHA256_DIGEST_LENGTH, '\0');
    SHA256(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(),
           reinterpret_cast<unsigned char*>(digest.data()));
    return digest;
}

OutgoingMessage job(const std::string& queue, int number) {
    OutgoingMessage message;
    message.set_body("job " + std::to_string(number));
    auto& attributes = *message.mutable_attributes();
    attributes["number"].set_string_value(std::to_string(number));
    attributes["digest"].set_binary_value(sha256(message.body()));
    // A batch whose answer was lost is sent again: what names its messages keeps them from being stored
    // twice.
    message.set_deduplication_id(queue + "-" + std::to_string(number));
    return message;
}

// Returns once all messages of the request are on stable media.
void send(Client& client, SendRequest request) {
    example::Backoff backoff;
    while (true) {
        const auto response = client.call(&Client::Stub::Send, request);
        SendRequest again;
        again.set_queue(request.queue());
        std::optional<Failure> why;
        for (int i = 0; i < response.results_size(); ++i) {
            if (!response.results(i).has_error()) continue;
            why = Failure::of(response.results(i).error());
            if (!why->may_pass()) throw SpoolrackError(*why);
            again.add_messages()->Swap(request.mutable_messages(i));
        }
        if (!why) return;
        // The queue is full, say: wait for those who empty it, and send the rest again.
        const auto pause = backoff.after(*why);
        std::cerr << "producer: " << again.messages_size() << " again in " << pause.count()
                  << " ms: " << why->message << std::endl;
        std::this_thread::sleep_for(pause);
        request = std::move(again);
    }
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 4) {
        std::cerr << "usage: producer HOST:PORT QUEUE COUNT\n";
        return 2;
    }
    try {
        Client client(argv[1]);
        const std::string queue = argv[2];
        const int count = std::stoi(argv[3]);
        for (int first = 1; first <= count; first += kBatch) {
            SendRequest request;
            request.set_queue(queue);
            for (int number = first; number <= std::min(first + kBatch - 1, count); ++number) {
                *request.add_messages() = job(queue, number);
            }
            send(client, std::move(request));
        }
        std::cout << "sent " << count << std::endl;
        return 0;
    } catch (const std::exception& error) {
        std::cerr << "producer: " << error.what() << std::endl;
        return 1;
    }
}
