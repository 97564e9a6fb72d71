package spoolrack.example;

import com.google.protobuf.ByteString;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import spoolrack.v1.Attribute;
import spoolrack.v1.OutgoingMessage;
import spoolrack.v1.SendRequest;
import spoolrack.v1.SendResult;

/**
 * Sends messages to a queue, in batches.
 *
 * <p>Usage: producer HOST:PORT QUEUE COUNT
 */
public final class Producer {
  private static final int BATCH = 100;

  private final Client client;
  private final String queue;

  private Producer(Client client, String queue) {
    this.client = client;
    this.queue = queue;
  }

  public static void main(String[] arguments) throws InterruptedException {
    if (arguments.length != 3) {
      System.err.println("usage: producer HOST:PORT QUEUE COUNT");
      System.exit(2);
    }
    int count = Integer.parseInt(arguments[2]);
    try (var client = new Client(arguments[0])) {
      var producer = new Producer(client, arguments[1]);
      for (int first = 1; first <= count; first += BATCH) {
        producer.send(first, Math.min(first + BATCH - 1, count));
      }
      System.out.println("sent " + count);
    } catch (SpoolrackException error) {
      System.err.println("producer: " + error.getMessage());
      System.exit(1);
    }
  }

  /** Returns once the messages of these numbers are on stable media. */
  private void send(int first, int last) throws InterruptedException {
    List<OutgoingMessage> pending = new ArrayList<>();
    for (int number = first; number <= last; number++) {
      pending.add(job(number));
    }
    var backoff = new Backoff();
    while (true) {
      var request = SendRequest.newBuilder().setQueue(queue).addAllMessages(pending).build();
      List<SendResult> results = client.call(stub -> stub.send(request)).getResultsList();
      var again = new ArrayList<OutgoingMessage>();
      Failure why = null;
      for (int i = 0; i < results.size(); i++) {
        if (results.get(i).hasError()) {
          why = Failure.of(results.get(i).getError());
          if (!why.mayPass()) {
            throw new SpoolrackException(why, null);
          }
          again.add(pending.get(i));
        }
      }
      if (why == null) {
        return;
      }
      // The queue is full, say: wait for those who empty it, and send the rest again.
      Duration pause = backoff.after(why);
      System.err.printf("producer: %d again in %d ms: %s%n", again.size(), pause.toMillis(), why);
      TimeUnit.MILLISECONDS.sleep(pause.toMillis());
      pending = again;
    }
  }

  private OutgoingMessage job(int number) {
    ByteString body = ByteString.copyFromUtf8("job " + number);
    return OutgoingMessage.newBuilder()
        .setBody(body)
        .putAttributes("number", Attribute.newBuilder().setStringValue("" + number).build())
        .putAttributes("digest", Attribute.newBuilder().setBinaryValue(sha256(body)).build())
        // A batch whose answer was lost is sent again: what names its messages keeps them from being
        // stored twice.
        .setDeduplicationId(queue + "-" + number)
        .build();
  }

  private static ByteString sha256(ByteString body) {
    try {
      return ByteString.copyFrom(MessageDigest.getInstance("SHA-256").digest(body.toByteArray()));
    } catch (NoSuchAlgorithmException missing) {
      throw new AssertionError("every Java has it", missing);
    }
  }
}
