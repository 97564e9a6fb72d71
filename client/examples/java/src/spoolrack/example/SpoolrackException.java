package spoolrack.example;

/** A call that failed for good: because a repetition can't help, or because there was no time for more. */
public final class SpoolrackException extends RuntimeException {
  private static final long serialVersionUID = 1;

  private final transient Failure failure;

  SpoolrackException(Failure failure, Throwable cause) {
    super(failure.toString(), cause);
    this.failure = failure;
  }

  public Failure failure() {
    return failure;
  }
}
