package spoolrack.example;

import com.google.protobuf.util.Durations;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import spoolrack.v1.DeleteRequest;
import spoolrack.v1.DeleteTarget;
import spoolrack.v1.ExtendLeasesRequest;
import spoolrack.v1.GetQueueRequest;
import spoolrack.v1.LeaseExtension;
import spoolrack.v1.Message;
import spoolrack.v1.MessageRelease;
import spoolrack.v1.ReleaseRequest;

/**
 * The leases of messages that wait or are worked on here. They are extended until they are deleted or
 * released: all in one call, three times within a visibility timeout. Thread-safe.
 */
final class Leases implements AutoCloseable {
  /** What one call may change. */
  private static final int MOST = 1_000;

  /** Of a queue whose settings say nothing of it. */
  private static final Duration DEFAULT_VISIBILITY = Duration.ofSeconds(30);

  private final Client client;
  private final String queue;
  private final Duration visibility;
  private final Map<String, Message> held = new LinkedHashMap<>();
  private final ScheduledExecutorService timer =
      Executors.newSingleThreadScheduledExecutor(task -> new Thread(task, "leases"));

  /** Asks the server how long the queue's leases last. */
  Leases(Client client, String queue) throws InterruptedException {
    this.client = client;
    this.queue = queue;
    var asked = GetQueueRequest.newBuilder().setName(queue).build();
    var settings = client.call(stub -> stub.getQueue(asked)).getQueue().getSettings();
    visibility =
        settings.hasVisibilityTimeout()
            ? Duration.ofMillis(Durations.toMillis(settings.getVisibilityTimeout()))
            : DEFAULT_VISIBILITY;
    long period = Math.max(1, visibility.toMillis() / 3);
    timer.scheduleWithFixedDelay(this::extendAll, period, period, TimeUnit.MILLISECONDS);
  }

  synchronized void add(Collection<Message> messages) {
    messages.forEach(message -> held.put(message.getReceipt(), message));
  }

  /** Whether the lease is still ours, as far as is known: if it isn't, somebody else has the message. */
  synchronized boolean holds(Message message) {
    return held.containsKey(message.getReceipt());
  }

  /** Deletes the message for good; false if its lease was over before. */
  boolean delete(Message message) throws InterruptedException {
    drop(List.of(message));
    var request =
        DeleteRequest.newBuilder()
            .setQueue(queue)
            .addTargets(DeleteTarget.newBuilder().setReceipt(message.getReceipt()))
            .build();
    var result = client.call(stub -> stub.delete(request)).getResults(0);
    if (!result.hasError()) {
      return true;
    }
    Failure failure = Failure.of(result.getError());
    if (failure.reason().equals("STALE_RECEIPT")) {
      return false;
    }
    throw new SpoolrackException(failure, null);
  }

  /**
   * Makes messages ready again at once, for whomever. One whose lease is over is so already. Only those that
   * were begun count as received.
   */
  void release(Collection<Message> messages, boolean begun) throws InterruptedException {
    drop(messages);
    for (List<Message> some : chunks(messages)) {
      var request = ReleaseRequest.newBuilder().setQueue(queue);
      for (Message message : some) {
        request.addReleases(
            MessageRelease.newBuilder()
                .setReceipt(message.getReceipt())
                .setDelay(Durations.ZERO)
                .setUncounted(!begun));
      }
      client.call(stub -> stub.release(request.build()));
    }
  }

  /** Lets the leases begin anew, in one call, as far as they aren't over. */
  void extend(Collection<Message> messages) throws InterruptedException {
    for (List<Message> some : chunks(messages)) {
      var request = ExtendLeasesRequest.newBuilder().setQueue(queue);
      for (Message message : some) {
        request.addExtensions(
            LeaseExtension.newBuilder()
                .setReceipt(message.getReceipt())
                .setVisibilityTimeout(Durations.fromMillis(visibility.toMillis())));
      }
      var results = client.call(stub -> stub.extendLeases(request.build())).getResultsList();
      for (int i = 0; i < results.size(); i++) {
        // A message that was deleted or released meanwhile has no lease any more, and needs none.
        if (results.get(i).hasError() && holds(some.get(i))) {
          Failure why = Failure.of(results.get(i).getError());
          System.err.printf("worker: lost %s: %s%n", some.get(i).getId(), why);
          drop(List.of(some.get(i)));
        }
      }
    }
  }

  private synchronized List<Message> all() {
    return List.copyOf(held.values());
  }

  private void extendAll() {
    try {
      extend(all());
    } catch (SpoolrackException error) {
      // An exception would end the timer. The server may be back before the leases are over.
      System.err.println("worker: leases could not be extended: " + error.getMessage());
    } catch (InterruptedException interrupted) {
      Thread.currentThread().interrupt();
    }
  }

  private synchronized void drop(Collection<Message> messages) {
    messages.forEach(message -> held.remove(message.getReceipt()));
  }

  private static List<List<Message>> chunks(Collection<Message> messages) {
    var all = List.copyOf(messages);
    var chunks = new ArrayList<List<Message>>();
    for (int start = 0; start < all.size(); start += MOST) {
      chunks.add(all.subList(start, Math.min(start + MOST, all.size())));
    }
    return chunks;
  }

  @Override
  public void close() {
    timer.shutdownNow();
  }
}
