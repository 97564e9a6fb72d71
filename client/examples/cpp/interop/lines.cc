#include "interop/lines.h"

#include <absl/strings/escaping.h>
#include <google/protobuf/util/time_util.h>

#include <stdexcept>

namespace interop {

using google::protobuf::util::TimeUtil;

std::string raw(const Json& text) {
    std::string bytes;
    if (!absl::Base64Unescape(text.get_ref<const std::string&>(), &bytes)) {
        throw std::invalid_argument("not base64");
    }
    return bytes;
}

Json text(const std::string& raw) { return absl::Base64Escape(raw); }

spoolrack::v1::OutgoingMessage outgoing(const Json& told) {
    spoolrack::v1::OutgoingMessage message;
    message.set_body(raw(told.at("body")));
    if (told.contains("attributes")) {
        for (const auto& [name, value] : told.at("attributes").items()) {
            auto& attribute = (*message.mutable_attributes())[name];
            if (value.contains("text")) {
                attribute.set_string_value(value.at("text"));
            } else {
                attribute.set_binary_value(raw(value.at("bytes")));
            }
        }
    }
    if (told.contains("delay_ms")) {
        *message.mutable_delay() = TimeUtil::MillisecondsToDuration(told.at("delay_ms"));
    }
    if (told.contains("deduplication_id")) message.set_deduplication_id(told.at("deduplication_id"));
    return message;
}

Json told(const spoolrack::v1::Message& message) {
    Json attributes = Json::object();
    for (const auto& [name, value] : message.attributes()) {
        attributes[name] = value.has_string_value() ? Json{{"text", value.string_value()}}
                                                    : Json{{"bytes", text(value.binary_value())}};
    }
    return {{"id", message.id()},
            {"body", text(message.body())},
            {"attributes", attributes},
            {"size", message.body_size()},
            {"receive_count", message.receive_count()},
            {"receipt", message.receipt()},
            {"send_ms", TimeUtil::TimestampToMilliseconds(message.send_time())}};
}

Json told(const google::protobuf::RepeatedPtrField<spoolrack::v1::Message>& messages) {
    Json all = Json::array();
    for (const auto& message : messages) all.push_back(told(message));
    return all;
}

Json told(const google::protobuf::RepeatedPtrField<spoolrack::v1::SendResult>& results) {
    Json all = Json::array();
    for (const auto& result : results) {
        all.push_back(result.has_error() ? Json{{"error", told(example::Failure::of(result.error()))}}
                                         : Json{{"id", result.sent().id()}});
    }
    return all;
}

Json told(const example::Failure& failure) {
    return {{"code", static_cast<int>(failure.code)},
            {"message", failure.message},
            {"domain", failure.domain},
            {"reason", failure.reason},
            {"metadata", failure.metadata},
            {"retry_ms", failure.retry_delay ? Json(failure.retry_delay->count()) : Json()}};
}

}  // namespace interop
