package spoolrack.example;

import com.google.protobuf.Any;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.rpc.ErrorInfo;
import com.google.rpc.RetryInfo;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.protobuf.StatusProto;
import java.io.IOException;
import java.time.Duration;
import java.util.Map;

/**
 * Why a call failed, or one message of many: the same facts, from a gRPC status or from a result.
 *
 * @param domain whose reason it is: "spoolrack"; empty if no Spoolrack server said it
 * @param reason a stable name such as QUEUE_NOT_FOUND (docs/reference/errors.md lists them); empty if no Spoolrack
 *     server said it, as when there is no connection
 * @param message for a person
 * @param retryDelay how long the server asks to wait before a repetition; null if it says nothing of one
 * @param metadata the facts of the message, for programs
 */
public record Failure(
    Status.Code code,
    String domain,
    String reason,
    String message,
    Duration retryDelay,
    Map<String, String> metadata) {

  /** What a failed call carries in its status. */
  public static Failure of(StatusRuntimeException error) {
    Status status = error.getStatus();
    if (isBrokenConnection(status)) {
      status = Status.UNAVAILABLE.withDescription("the connection broke: " + status.getDescription());
    }
    com.google.rpc.Status rich = StatusProto.fromThrowable(error);
    String description = status.getDescription();
    return of(
        (rich == null ? com.google.rpc.Status.newBuilder() : rich.toBuilder())
            .setCode(status.getCode().value())
            .setMessage(description == null ? "" : description)
            .build());
  }

  /** What the result of one message says. */
  public static Failure of(com.google.rpc.Status rich) {
    String domain = "";
    String reason = "";
    Duration retryDelay = null;
    Map<String, String> metadata = Map.of();
    for (Any detail : rich.getDetailsList()) {
      try {
        if (detail.is(ErrorInfo.class)) {
          ErrorInfo info = detail.unpack(ErrorInfo.class);
          domain = info.getDomain();
          reason = info.getReason();
          metadata = info.getMetadataMap();
        } else if (detail.is(RetryInfo.class)) {
          retryDelay = duration(detail.unpack(RetryInfo.class).getRetryDelay());
        }
      } catch (InvalidProtocolBufferException garbled) {
        throw new IllegalStateException("the server's status can't be read", garbled);
      }
    }
    Status.Code code = Status.fromCodeValue(rich.getCode()).getCode();
    return new Failure(code, domain, reason, rich.getMessage(), retryDelay, metadata);
  }

  /**
   * Whether the same again may succeed. With a reason the server has decided that. Without one the status is
   * gRPC's, or a proxy's on the way: with these codes the server gave no answer. For a call that may be repeated,
   * as all of these examples may, that is worth another try.
   */
  public boolean mayPass() {
    if (!reason.isEmpty()) {
      return retryDelay != null;
    }
    return switch (code) {
      case UNAVAILABLE, DEADLINE_EXCEEDED, CANCELLED, INTERNAL, UNKNOWN, RESOURCE_EXHAUSTED -> true;
      default -> false;
    };
  }

  @Override
  public String toString() {
    return (reason.isEmpty() ? code.toString() : code + " " + reason) + ": " + message;
  }

  /**
   * A call that begins just as its connection breaks can end as UNKNOWN, "channel closed"
   * (grpc/grpc-java#10120): not known by number, but by its cause, which no status of a server has.
   */
  private static boolean isBrokenConnection(Status status) {
    return status.getCode() == Status.Code.UNKNOWN && status.getCause() instanceof IOException;
  }

  private static Duration duration(com.google.protobuf.Duration duration) {
    return Duration.ofSeconds(duration.getSeconds(), duration.getNanos());
  }
}
