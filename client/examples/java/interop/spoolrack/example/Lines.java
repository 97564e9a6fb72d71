package spoolrack.example;

import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonNull;
import com.google.gson.JsonObject;
import com.google.protobuf.ByteString;
import com.google.protobuf.Descriptors.Descriptor;
import com.google.protobuf.Descriptors.FileDescriptor;
import com.google.protobuf.Descriptors.MethodDescriptor;
import com.google.protobuf.util.Durations;
import com.google.protobuf.util.Timestamps;
import io.grpc.StatusRuntimeException;
import java.util.ArrayDeque;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import spoolrack.v1.Attribute;
import spoolrack.v1.Message;
import spoolrack.v1.OutgoingMessage;
import spoolrack.v1.QueueServiceOuterClass;
import spoolrack.v1.SendResult;
import spoolrack.v1.RedriveServiceOuterClass;
import spoolrack.v1.ReservationServiceOuterClass;
import spoolrack.v1.ScheduleServiceOuterClass;
import spoolrack.v1.StagingServiceOuterClass;

/** How the values of the contract look in the lines that Interop reads and writes. */
final class Lines {
  static final Gson JSON = new GsonBuilder().serializeNulls().create();

  private Lines() {}

  static OutgoingMessage outgoing(JsonElement told) {
    JsonObject fields = told.getAsJsonObject();
    var message = OutgoingMessage.newBuilder().setBody(raw(fields.get("body")));
    if (fields.has("attributes")) {
      for (var attribute : fields.getAsJsonObject("attributes").entrySet()) {
        JsonObject value = attribute.getValue().getAsJsonObject();
        message.putAttributes(
            attribute.getKey(),
            value.has("text")
                ? Attribute.newBuilder().setStringValue(value.get("text").getAsString()).build()
                : Attribute.newBuilder().setBinaryValue(raw(value.get("bytes"))).build());
      }
    }
    if (fields.has("delay_ms")) {
      message.setDelay(Durations.fromMillis(fields.get("delay_ms").getAsLong()));
    }
    if (fields.has("deduplication_id")) {
      message.setDeduplicationId(fields.get("deduplication_id").getAsString());
    }
    return message.build();
  }

  static JsonArray messages(List<Message> messages) {
    var told = new JsonArray();
    for (Message message : messages) {
      var attributes = new JsonObject();
      message
          .getAttributesMap()
          .forEach(
              (name, value) ->
                  attributes.add(
                      name,
                      value.hasStringValue()
                          ? with("text", JSON.toJsonTree(value.getStringValue()))
                          : with("bytes", text(value.getBinaryValue()))));
      var fields = with("attributes", attributes);
      fields.addProperty("id", message.getId());
      fields.add("body", text(message.getBody()));
      fields.addProperty("size", message.getBodySize());
      fields.addProperty("receive_count", message.getReceiveCount());
      fields.addProperty("receipt", message.getReceipt());
      fields.addProperty("send_ms", Timestamps.toMillis(message.getSendTime()));
      told.add(fields);
    }
    return told;
  }

  static JsonArray results(List<SendResult> results) {
    var told = new JsonArray();
    for (SendResult result : results) {
      told.add(
          result.hasError()
              ? with("error", error(result.getError()))
              : with("id", JSON.toJsonTree(result.getSent().getId())));
    }
    return told;
  }

  static JsonObject error(StatusRuntimeException failed) {
    return error(Failure.of(failed));
  }

  static JsonObject error(com.google.rpc.Status error) {
    return error(Failure.of(error));
  }

  private static JsonObject error(Failure failure) {
    var told = new JsonObject();
    told.addProperty("code", failure.code().value());
    told.addProperty("message", failure.message());
    told.addProperty("domain", failure.domain());
    told.addProperty("reason", failure.reason());
    told.add("metadata", JSON.toJsonTree(failure.metadata()));
    told.add(
        "retry_ms",
        failure.retryDelay() == null
            ? JsonNull.INSTANCE
            : JSON.toJsonTree(failure.retryDelay().toMillis()));
    return told;
  }

  /** All types of the contract, and of what it imports, by their full names. */
  static Map<String, Descriptor> types() {
    var types = new HashMap<String, Descriptor>();
    Queue<FileDescriptor> files =
        new ArrayDeque<>(
            List.of(
                QueueServiceOuterClass.getDescriptor(),
                StagingServiceOuterClass.getDescriptor(),
                ReservationServiceOuterClass.getDescriptor(),
                RedriveServiceOuterClass.getDescriptor(),
                ScheduleServiceOuterClass.getDescriptor(),
                com.google.rpc.StatusProto.getDescriptor(),
                com.google.rpc.ErrorDetailsProto.getDescriptor()));
    for (FileDescriptor file = files.poll(); file != null; file = files.poll()) {
      file.getMessageTypes().forEach(type -> types.put(type.getFullName(), type));
      files.addAll(file.getDependencies());
    }
    return types;
  }

  /** All methods of the contract, by service and name with a slash between them. */
  static Map<String, MethodDescriptor> methods() {
    var methods = new HashMap<String, MethodDescriptor>();
    for (FileDescriptor file :
        List.of(
            QueueServiceOuterClass.getDescriptor(),
            StagingServiceOuterClass.getDescriptor(),
            ReservationServiceOuterClass.getDescriptor(),
            RedriveServiceOuterClass.getDescriptor(),
            ScheduleServiceOuterClass.getDescriptor())) {
      for (var service : file.getServices()) {
        service.getMethods().forEach(each -> methods.put(service.getFullName() + "/" + each.getName(), each));
      }
    }
    return methods;
  }

  static JsonObject with(String name, JsonElement value) {
    var object = new JsonObject();
    object.add(name, value);
    return object;
  }

  static JsonElement text(ByteString bytes) {
    return JSON.toJsonTree(Base64.getEncoder().encodeToString(bytes.toByteArray()));
  }

  static ByteString raw(JsonElement text) {
    return ByteString.copyFrom(Base64.getDecoder().decode(text.getAsString()));
  }
}
