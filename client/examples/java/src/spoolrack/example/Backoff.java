package spoolrack.example;

import java.time.Duration;
import java.util.concurrent.ThreadLocalRandom;

/**
 * How long to wait before a repetition: a random time up to a bound that doubles, on top of what the server
 * asked for. Random, or all whom a server turned away would be back at one moment. Not thread-safe.
 */
final class Backoff {
  private static final long FIRST_MILLIS = 100;
  private static final long MOST_MILLIS = 5_000;

  private int failures;

  Duration after(Failure failure) {
    long bound = Math.min(MOST_MILLIS, FIRST_MILLIS << Math.min(failures++, 16));
    Duration pause = Duration.ofMillis(ThreadLocalRandom.current().nextLong(bound + 1));
    return failure.retryDelay() == null ? pause : pause.plus(failure.retryDelay());
  }

  void reset() {
    failures = 0;
  }
}
