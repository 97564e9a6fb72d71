package spoolrack.example;

import io.grpc.Context;
import io.grpc.ManagedChannel;
import io.grpc.StatusRuntimeException;
import io.grpc.netty.NettyChannelBuilder;
import java.time.Duration;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import spoolrack.v1.QueueServiceGrpc;
import spoolrack.v1.QueueServiceGrpc.QueueServiceBlockingStub;

/** A channel to a server, and how calls are made on it. Thread-safe; one is enough for a program. */
public final class Client implements AutoCloseable {
  /** How long one attempt of a call may take. */
  private static final Duration DEADLINE = Duration.ofSeconds(10);

  /** How long a call is repeated before its failure is thrown: a restart of the server takes less. */
  private static final Duration PATIENCE = Duration.ofSeconds(30);

  private final ManagedChannel channel;
  private final QueueServiceBlockingStub stub;
  private final CountDownLatch stopped = new CountDownLatch(1);
  private final Context.CancellableContext untilStopped = Context.current().withCancellation();

  /** Connects on the first call. {@code address} is host:port. */
  public Client(String address) {
    channel =
        NettyChannelBuilder.forTarget(address)
            .usePlaintext()
            // A message may have 64 MiB; the server's own limits say which.
            .maxInboundMessageSize(Integer.MAX_VALUE)
            // A server that vanished without a word is found out while a call or a stream waits for it.
            .keepAliveTime(15, TimeUnit.SECONDS)
            .keepAliveTimeout(10, TimeUnit.SECONDS)
            .build();
    stub = QueueServiceGrpc.newBlockingStub(channel);
  }

  ManagedChannel channel() {
    return channel;
  }

  /** For streams, which have no deadline; in {@link #untilStopped} they end when all does. */
  QueueServiceBlockingStub stub() {
    return stub;
  }

  Context untilStopped() {
    return untilStopped;
  }

  /** Ends streams and pauses; what fails from now on isn't repeated. From any thread, any number of times. */
  public void stop() {
    stopped.countDown();
    untilStopped.cancel(null);
  }

  boolean isStopped() {
    return stopped.getCount() == 0;
  }

  /** Waits so long, or until {@link #stop}: then at once true. */
  boolean stoppedWithin(Duration pause) throws InterruptedException {
    return stopped.await(pause.toNanos(), TimeUnit.NANOSECONDS);
  }

  /**
   * Makes a call that may be repeated, and repeats it as long as that may help.
   *
   * @throws SpoolrackException if it fails for good
   * @throws InterruptedException if the thread is interrupted between two attempts
   */
  <T> T call(Function<QueueServiceBlockingStub, T> call) throws InterruptedException {
    var backoff = new Backoff();
    long end = System.nanoTime() + PATIENCE.toNanos();
    while (true) {
      try {
        return call.apply(stub.withDeadlineAfter(DEADLINE.toMillis(), TimeUnit.MILLISECONDS));
      } catch (StatusRuntimeException error) {
        Failure failure = Failure.of(error);
        Duration pause = backoff.after(failure);
        boolean inVain = !failure.mayPass() || System.nanoTime() + pause.toNanos() - end > 0;
        if (inVain || stoppedWithin(pause)) {
          throw new SpoolrackException(failure, error);
        }
        reconnectNow();
      }
    }
  }

  /** gRPC has a back-off of its own for connections, which grows to two minutes: our pauses are enough. */
  void reconnectNow() {
    channel.resetConnectBackoff();
  }

  @Override
  public void close() {
    stop();
    channel.shutdownNow();
    try {
      channel.awaitTermination(5, TimeUnit.SECONDS);
    } catch (InterruptedException interrupted) {
      Thread.currentThread().interrupt();
    }
  }
}
