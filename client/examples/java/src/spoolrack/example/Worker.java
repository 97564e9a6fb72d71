package spoolrack.example;

import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.stub.ClientCalls;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import spoolrack.v1.Message;
import spoolrack.v1.QueueServiceGrpc;
import spoolrack.v1.ReceiveStart;
import spoolrack.v1.StreamReceiveRequest;

/**
 * Works on the messages of a queue until SIGTERM or Ctrl-C: streams them, keeps their leases, deletes what is
 * done, releases what failed or was never begun, and outlives restarts of the server.
 *
 * <p>Usage: worker HOST:PORT QUEUE
 *
 * <p>Three kinds of threads: the main one reads the stream, a few work, and one extends the leases. The
 * server's credits bound what waits here, so that nothing else has to.
 */
public final class Worker implements AutoCloseable {
  private static final int THREADS = 4;

  /** How many messages we hold at most: those that are worked on, and a few that wait. */
  private static final int MAX_IN_FLIGHT = 10;

  private final Client client;
  private final String queue;
  private final Leases leases;
  private final ThreadPoolExecutor workers =
      new ThreadPoolExecutor(
          THREADS, THREADS, 0, TimeUnit.SECONDS, new LinkedBlockingQueue<>());

  public Worker(Client client, String queue) throws InterruptedException {
    this.client = client;
    this.queue = queue;
    this.leases = new Leases(client, queue);
  }

  public static void main(String[] arguments) throws Exception {
    if (arguments.length != 2) {
      System.err.println("usage: worker HOST:PORT QUEUE");
      System.exit(2);
    }
    var ended = new CountDownLatch(1);
    var signalled = new AtomicBoolean();
    var code = new AtomicInteger(1);
    try (var client = new Client(arguments[0])) {
      // The JVM ends when its hooks have: this one waits until all is given back. Without the halt a signal's
      // exit code would be 143.
      Runtime.getRuntime()
          .addShutdownHook(
              new Thread(
                  () -> {
                    signalled.set(true);
                    client.stop();
                    if (awaited(ended)) {
                      Runtime.getRuntime().halt(code.get());
                    }
                  }));
      try (var worker = new Worker(client, arguments[1])) {
        worker.run();
      } catch (SpoolrackException error) {
        System.err.println("worker: " + error.getMessage());
        if (!signalled.get()) {
          return;
        }
      }
      say("stopped");
      code.set(0);
    } finally {
      ended.countDown();
    }
  }

  private static boolean awaited(CountDownLatch latch) {
    try {
      latch.await();
      return true;
    } catch (InterruptedException interrupted) {
      Thread.currentThread().interrupt();
      return false;
    }
  }

  /**
   * Works until {@link Client#stop}, through any number of connections.
   *
   * @throws SpoolrackException if the stream fails in a way that no repetition mends, such as a queue that
   *     isn't there
   */
  public void run() throws InterruptedException {
    var backoff = new Backoff();
    while (true) {
      Failure failure;
      try {
        stream(backoff);
        failure = Failure.of(Status.UNAVAILABLE.withDescription("the server ended the stream").asRuntimeException());
      } catch (StatusRuntimeException error) {
        failure = Failure.of(error);
        if (!client.isStopped() && !failure.mayPass()) {
          throw new SpoolrackException(failure, error);
        }
      }
      if (client.isStopped()) {
        return;
      }
      Duration pause = backoff.after(failure);
      say("reconnecting", failure.reason().isEmpty() ? failure.code().toString() : failure.reason());
      if (client.stoppedWithin(pause)) {
        return;
      }
      client.reconnectNow();
    }
  }

  private void stream(Backoff backoff) {
    var request =
        StreamReceiveRequest.newBuilder()
            .setStart(ReceiveStart.newBuilder().setQueue(queue).setMaxInFlight(MAX_IN_FLIGHT))
            .build();
    client.untilStopped().run(
        () ->
            ClientCalls.blockingServerStreamingCall(
                    client.stub().getChannel(),
                    QueueServiceGrpc.getStreamReceiveMethod(),
                    client.stub().getCallOptions(),
                    request)
                .forEachRemaining(
                    frame -> {
                      backoff.reset();
                      var messages = frame.getReceived().getMessagesList();
                      leases.add(messages);
                      messages.forEach(message -> workers.execute(new Job(message)));
                    }));
  }

  /** A message that waits for a thread, or has one. */
  private final class Job implements Runnable {
    final Message message;

    Job(Message message) {
      this.message = message;
    }

    @Override
    public void run() {
      if (!leases.holds(message)) {
        return; // its lease was lost while it waited: it comes again, to whomever
      }
      try {
        if (!succeeded()) {
          // At once. One that fails for a while is better extended by the pause that it shall have, and not
          // released: then it doesn't go round and round, and keeps its credit.
          leases.release(List.of(message), true);
          say("released", message.getId());
          return;
        }
        // Only now: if we died before, the message would come again.
        if (leases.delete(message)) {
          say("done", message.getId(), message.getBody().toStringUtf8());
        } else {
          say("late", message.getId()); // somebody else has it, or will
        }
      } catch (SpoolrackException error) {
        System.err.printf("worker: %s comes again: %s%n", message.getId(), error.getMessage());
      } catch (InterruptedException interrupted) {
        Thread.currentThread().interrupt();
      }
    }

    private boolean succeeded() throws InterruptedException {
      try {
        return work(message);
      } catch (RuntimeException error) {
        // Whatever goes wrong in there must not keep the message leased for ever.
        System.err.printf("worker: %s failed: %s%n", message.getId(), error);
        return false;
      }
    }
  }

  /**
   * Stands for your own work; false if it failed. What it does is in the attributes: "fails" at the first
   * receive; "slow" takes so many milliseconds, be it longer than a lease, and begins with a fresh one.
   * What takes long must see that we stop, and give up.
   */
  private boolean work(Message message) throws InterruptedException {
    if (message.getReceiveCount() == 1 && message.containsAttributes("fails")) {
      return false;
    }
    if (message.containsAttributes("slow")) {
      leases.extend(List.of(message));
      say("extended", message.getId());
      String millis = message.getAttributesOrThrow("slow").getStringValue();
      return !client.stoppedWithin(Duration.ofMillis(Long.parseLong(millis)));
    }
    return true;
  }

  private static void say(String... words) {
    System.out.println(String.join(" ", words));
  }

  /** Ends the stream, finishes what is nearly done, and gives the rest back: others can have it at once. */
  @Override
  public void close() {
    client.stop();
    var waiting = new ArrayList<Runnable>();
    workers.getQueue().drainTo(waiting);
    workers.shutdown();
    try {
      try {
        leases.release(waiting.stream().map(job -> ((Job) job).message).toList(), false);
      } catch (SpoolrackException error) {
        System.err.println("worker: could not give messages back: " + error.getMessage());
      }
      workers.awaitTermination(Long.MAX_VALUE, TimeUnit.NANOSECONDS);
    } catch (InterruptedException interrupted) {
      Thread.currentThread().interrupt();
    } finally {
      leases.close();
    }
  }
}
