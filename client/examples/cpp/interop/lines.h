// How the values of the contract look in the lines that the driver reads and writes.
#pragma once

#include <nlohmann/json.hpp>

#include "client.h"

namespace interop {

using Json = nlohmann::json;

std::string raw(const Json& text);
Json text(const std::string& raw);
spoolrack::v1::OutgoingMessage outgoing(const Json& told);
Json told(const spoolrack::v1::Message& message);
Json told(const example::Failure& failure);
Json told(const google::protobuf::RepeatedPtrField<spoolrack::v1::SendResult>& results);
Json told(const google::protobuf::RepeatedPtrField<spoolrack::v1::Message>& messages);

}  // namespace interop
