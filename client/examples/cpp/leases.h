// The leases of messages that wait or are worked on here.
#pragma once

#include <condition_variable>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "client.h"

namespace example {

// They are extended until they are deleted or released: all in one call, three times within a
// visibility timeout. Thread-safe.
class Leases {
 public:
    using Message = spoolrack::v1::Message;

    // Asks the server how long the queue's leases last. Throws SpoolrackError.
    Leases(Client& client, std::string queue);

    // The message is held from now on.
    void add(const Message& message);

    // Whether the lease is still ours, as far as is known: if it isn't, somebody else has the message.
    bool holds(const Message& message);

    // Deletes the message for good; false if its lease was over before. Throws SpoolrackError.
    bool remove(const Message& message);

    // Makes messages ready again at once, for whomever. One whose lease is over is so already. Only those
    // that were begun count as received. Throws SpoolrackError.
    void release(const std::vector<Message>& messages, bool begun);

    // Lets the lease begin anew, if it isn't over. Throws SpoolrackError.
    void extend(const Message& message);

 private:
    using ById = std::map<std::string, std::string>;  // from the receipt to the message's id

    void extend(const ById& leases);
    void drop(const std::string& receipt);
    void keep(std::stop_token stop);

    Client& client_;
    const std::string queue_;
    const milliseconds visibility_;
    std::mutex mutex_;
    std::condition_variable_any changed_;
    ById held_;
    std::jthread keeper_;  // the last member: it ends before what it uses
};

}  // namespace example
