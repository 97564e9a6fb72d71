package spoolrack.example;

import static spoolrack.example.Lines.JSON;
import static spoolrack.example.Lines.error;
import static spoolrack.example.Lines.messages;
import static spoolrack.example.Lines.outgoing;
import static spoolrack.example.Lines.raw;
import static spoolrack.example.Lines.results;
import static spoolrack.example.Lines.text;
import static spoolrack.example.Lines.with;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import com.google.protobuf.Descriptors.Descriptor;
import com.google.protobuf.DynamicMessage;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.protobuf.util.Durations;
import io.grpc.CallOptions;
import io.grpc.MethodDescriptor;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.protobuf.ProtoUtils;
import io.grpc.stub.ClientCallStreamObserver;
import io.grpc.stub.ClientCalls;
import io.grpc.stub.ClientResponseObserver;
import io.grpc.stub.StreamObserver;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import spoolrack.v1.QueueServiceGrpc;
import spoolrack.v1.QueueServiceGrpc.QueueServiceBlockingStub;
import spoolrack.v1.DeleteRequest;
import spoolrack.v1.DeleteTarget;
import spoolrack.v1.ExtendLeasesRequest;
import spoolrack.v1.LeaseExtension;
import spoolrack.v1.MessageRelease;
import spoolrack.v1.ReceiveRequest;
import spoolrack.v1.ReceiveStart;
import spoolrack.v1.ReleaseRequest;
import spoolrack.v1.SendRequest;
import spoolrack.v1.StreamReceiveRequest;
import spoolrack.v1.StreamReceiveResponse;
import spoolrack.v1.StreamSendRequest;
import spoolrack.v1.StreamSendResponse;

/**
 * Lets the tests of tests/interop use this language's client: a line of JSON is a request, a line of JSON its
 * answer, as PROTOCOL.md there fixes. No example of how to use the queue: Producer and Worker are.
 */
public final class Interop {
  private static final Map<String, Descriptor> TYPES = Lines.types();
  private static final Map<String, com.google.protobuf.Descriptors.MethodDescriptor> METHODS = Lines.methods();

  private final Client client;
  private final Map<String, ClientCallStreamObserver<?>> streams = new ConcurrentHashMap<>();

  private Interop(Client client) {
    this.client = client;
  }

  public static void main(String[] arguments) throws IOException {
    var input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    // One thread for each request that waits: a long poll keeps nobody waiting.
    var threads = Executors.newCachedThreadPool();
    try (var client = new Client(arguments[0])) {
      var interop = new Interop(client);
      var ready = new JsonObject();
      ready.addProperty("ready", true);
      write(ready);
      for (String line = input.readLine(); line != null; line = input.readLine()) {
        JsonObject asked = JsonParser.parseString(line).getAsJsonObject();
        threads.execute(() -> interop.answer(asked));
      }
    }
    System.exit(0); // streams and polls may still wait for what nobody hears
  }

  private void answer(JsonObject asked) {
    var answer = new JsonObject();
    answer.add("id", asked.get("id"));
    try {
      answer.add("ok", done(asked));
    } catch (StatusRuntimeException failed) {
      answer.add("error", error(failed));
    } catch (Exception broken) {
      // Of the driver: the tests shall see it, and not wait.
      broken.printStackTrace();
      System.exit(70);
    }
    write(answer);
  }

  private JsonObject done(JsonObject asked) throws Exception {
    return switch (asked.get("op").getAsString()) {
      case "send" -> send(asked);
      case "send_stream" -> sendStream(asked);
      case "receive" -> receive(asked);
      case "delete" -> delete(asked);
      case "extend" -> extend(asked);
      case "release" -> release(asked);
      case "stream" -> stream(asked);
      case "cancel" -> {
        streams.get(asked.get("stream").getAsString()).cancel("the test asked for it", null);
        yield new JsonObject();
      }
      case "call" -> call(asked);
      case "recode" -> recode(asked);
      case "status" -> status(asked);
      default -> throw new IllegalArgumentException("no such op: " + asked.get("op"));
    };
  }

  private QueueServiceBlockingStub stub(JsonObject asked) {
    return asked.has("timeout_ms")
        ? client.stub().withDeadlineAfter(asked.get("timeout_ms").getAsLong(), TimeUnit.MILLISECONDS)
        : client.stub();
  }

  private JsonObject send(JsonObject asked) {
    var request = SendRequest.newBuilder().setQueue(asked.get("queue").getAsString());
    asked.getAsJsonArray("messages").forEach(message -> request.addMessages(outgoing(message)));
    return with("results", results(stub(asked).send(request.build()).getResultsList()));
  }

  private JsonObject sendStream(JsonObject asked) throws InterruptedException {
    var responses = new JsonArray();
    var ended = new CompletableFuture<Void>();
    var stub = QueueServiceGrpc.newStub(client.channel());
    if (asked.has("timeout_ms")) {
      stub = stub.withDeadlineAfter(asked.get("timeout_ms").getAsLong(), TimeUnit.MILLISECONDS);
    }
    StreamObserver<StreamSendRequest> requests =
        stub.streamSend(
            new StreamObserver<>() {
              @Override
              public void onNext(StreamSendResponse response) {
                JsonObject told;
                if (response.hasError()) {
                  told = with("error", error(response.getError()));
                } else {
                  told = with("results", results(response.getResponse().getResultsList()));
                }
                told.addProperty("correlation_id", response.getCorrelationId());
                responses.add(told);
              }

              @Override
              public void onError(Throwable error) {
                ended.completeExceptionally(error);
              }

              @Override
              public void onCompleted() {
                ended.complete(null);
              }
            });
    long number = 0;
    for (JsonElement batch : asked.getAsJsonArray("batches")) {
      var request = SendRequest.newBuilder().setQueue(asked.get("queue").getAsString());
      batch.getAsJsonArray().forEach(message -> request.addMessages(outgoing(message)));
      requests.onNext(
          StreamSendRequest.newBuilder().setCorrelationId(++number).setRequest(request).build());
    }
    requests.onCompleted();
    try {
      ended.get();
    } catch (ExecutionException failed) {
      throw (StatusRuntimeException) failed.getCause();
    }
    return with("responses", responses);
  }

  private JsonObject receive(JsonObject asked) {
    var request = ReceiveRequest.newBuilder().setQueue(asked.get("queue").getAsString());
    if (asked.has("max")) {
      request.setMaxMessages(asked.get("max").getAsInt());
    }
    if (asked.has("wait_ms")) {
      request.setWait(Durations.fromMillis(asked.get("wait_ms").getAsLong()));
    }
    if (asked.has("visibility_ms")) {
      request.setVisibilityTimeout(Durations.fromMillis(asked.get("visibility_ms").getAsLong()));
    }
    return with("messages", messages(stub(asked).receive(request.build()).getMessagesList()));
  }

  private JsonObject delete(JsonObject asked) {
    var request = DeleteRequest.newBuilder().setQueue(asked.get("queue").getAsString());
    for (JsonElement receipt : asked.getAsJsonArray("receipts")) {
      request.addTargets(DeleteTarget.newBuilder().setReceipt(receipt.getAsString()));
    }
    var results = new JsonArray();
    for (var result : stub(asked).delete(request.build()).getResultsList()) {
      results.add(result.hasError() ? with("error", error(result.getError())) : new JsonObject());
    }
    return with("results", results);
  }

  private JsonObject release(JsonObject asked) {
    var request = ReleaseRequest.newBuilder().setQueue(asked.get("queue").getAsString());
    for (JsonElement receipt : asked.getAsJsonArray("receipts")) {
      request.addReleases(
          MessageRelease.newBuilder().setReceipt(receipt.getAsString()).setDelay(Durations.ZERO));
    }
    var results = new JsonArray();
    for (var result : stub(asked).release(request.build()).getResultsList()) {
      results.add(result.hasError() ? with("error", error(result.getError())) : new JsonObject());
    }
    return with("results", results);
  }

  private JsonObject extend(JsonObject asked) {
    var request = ExtendLeasesRequest.newBuilder().setQueue(asked.get("queue").getAsString());
    var longer = Durations.fromMillis(asked.get("visibility_ms").getAsLong());
    for (JsonElement receipt : asked.getAsJsonArray("receipts")) {
      request.addExtensions(
          LeaseExtension.newBuilder().setReceipt(receipt.getAsString()).setVisibilityTimeout(longer));
    }
    var results = new JsonArray();
    for (var result : stub(asked).extendLeases(request.build()).getResultsList()) {
      var told = result.hasError() ? with("error", error(result.getError())) : new JsonObject();
      if (result.hasLeaseExpireTime()) {
        told.addProperty("due_ms", com.google.protobuf.util.Timestamps.toMillis(result.getLeaseExpireTime()));
      }
      results.add(told);
    }
    return with("results", results);
  }

  private JsonObject stream(JsonObject asked) {
    var start = ReceiveStart.newBuilder().setQueue(asked.get("queue").getAsString());
    if (asked.has("max_in_flight")) {
      start.setMaxInFlight(asked.get("max_in_flight").getAsInt());
    }
    if (asked.has("visibility_ms")) {
      start.setVisibilityTimeout(Durations.fromMillis(asked.get("visibility_ms").getAsLong()));
    }
    var stub = QueueServiceGrpc.newStub(client.channel());
    if (asked.has("timeout_ms")) {
      stub = stub.withDeadlineAfter(asked.get("timeout_ms").getAsLong(), TimeUnit.MILLISECONDS);
    }
    String name = asked.get("stream").getAsString();
    var requests = stub.streamReceive(
        new ClientResponseObserver<StreamReceiveRequest, StreamReceiveResponse>() {
          @Override
          public void beforeStart(ClientCallStreamObserver<StreamReceiveRequest> call) {
            streams.put(name, call);
          }

          @Override
          public void onNext(StreamReceiveResponse frame) {
            tell("messages", messages(frame.getReceived().getMessagesList()));
          }

          @Override
          public void onError(Throwable error) {
            tell("end", error((StatusRuntimeException) error));
          }

          @Override
          public void onCompleted() {
            tell("end", error(Status.OK.asRuntimeException()));
          }

          private void tell(String what, JsonElement told) {
            JsonObject line = with(what, told);
            line.addProperty("stream", name);
            write(line);
          }
        });
    requests.onNext(StreamReceiveRequest.newBuilder().setStart(start).build());
    requests.onCompleted();
    return new JsonObject();
  }

  private JsonObject call(JsonObject asked) throws InvalidProtocolBufferException {
    String path = asked.get("method").getAsString();
    var method = METHODS.get(path);
    var descriptor =
        MethodDescriptor.<DynamicMessage, DynamicMessage>newBuilder()
            .setType(MethodDescriptor.MethodType.UNARY)
            .setFullMethodName(path)
            .setRequestMarshaller(
                ProtoUtils.marshaller(DynamicMessage.getDefaultInstance(method.getInputType())))
            .setResponseMarshaller(
                ProtoUtils.marshaller(DynamicMessage.getDefaultInstance(method.getOutputType())))
            .build();
    var request = DynamicMessage.parseFrom(method.getInputType(), raw(asked.get("request")));
    var options = CallOptions.DEFAULT;
    if (asked.has("timeout_ms")) {
      options = options.withDeadlineAfter(asked.get("timeout_ms").getAsLong(), TimeUnit.MILLISECONDS);
    }
    var response = ClientCalls.blockingUnaryCall(client.channel(), descriptor, options, request);
    return with("response", text(response.toByteString()));
  }

  private static JsonObject recode(JsonObject asked) throws InvalidProtocolBufferException {
    Descriptor type = TYPES.get(asked.get("type").getAsString());
    return with(
        "binary", text(DynamicMessage.parseFrom(type, raw(asked.get("binary"))).toByteString()));
  }

  private static JsonObject status(JsonObject asked) throws InvalidProtocolBufferException {
    var status = com.google.rpc.Status.parseFrom(raw(asked.get("binary")));
    return with("error", error(io.grpc.protobuf.StatusProto.toStatusRuntimeException(status)));
  }

  private static synchronized void write(JsonObject line) {
    System.out.writeBytes((JSON.toJson(line) + "\n").getBytes(StandardCharsets.UTF_8));
    System.out.flush();
  }
}
