# frozen_string_literal: true

# A channel to a Spoolrack server, how calls are made on it, and what their failures say.

$LOAD_PATH.unshift(File.expand_path('../build/stubs', __dir__))

require 'grpc'
require 'google/protobuf/well_known_types' # Any#unpack, Duration#to_f
require 'google/rpc/error_details_pb'
require 'google/rpc/status_pb'
require 'spoolrack/v1/queue_service_services_pb'

module SpoolrackExample
  V1 = Spoolrack::V1
  Codes = GRPC::Core::StatusCodes
  # Without a reason a status is gRPC's, or a proxy's on the way: with these codes the server gave no answer.
  NO_ANSWER = [Codes::UNAVAILABLE, Codes::DEADLINE_EXCEEDED, Codes::CANCELLED, Codes::INTERNAL, Codes::UNKNOWN,
               Codes::RESOURCE_EXHAUSTED].freeze

  # Why a call failed, or one message of many: the same facts, from a gRPC status or from a result.
  #
  # code::        the gRPC status code, a number
  # domain::      whose reason it is: "spoolrack"; empty if no Spoolrack server said it
  # reason::      a stable name such as QUEUE_NOT_FOUND (docs/reference/errors.md lists them); empty if no Spoolrack
  #               server said it, as when there is no connection
  # message::     for a person
  # retry_delay:: seconds that the server asks to wait before a repetition; nil if it says nothing of one
  # metadata::    the facts of the message, for programs
  Failure = Struct.new(:code, :domain, :reason, :message, :retry_delay, :metadata, keyword_init: true) do
    # What a failed call carries in its status.
    def self.of_status(error)
      details = error.metadata['grpc-status-details-bin']
      status = details ? Google::Rpc::Status.decode(details) : Google::Rpc::Status.new
      of_result(status).tap do |failure|
        failure.code = error.code
        failure.message = error.details
      end
    end

    # What the result of one message says.
    def self.of_result(status)
      failure = new(code: status.code, domain: '', reason: '', message: status.message, metadata: {})
      status.details.each do |detail|
        if (info = detail.unpack(Google::Rpc::ErrorInfo))
          failure.domain = info.domain
          failure.reason = info.reason
          failure.metadata = info.metadata.to_h
        elsif (retry_info = detail.unpack(Google::Rpc::RetryInfo))
          failure.retry_delay = retry_info.retry_delay.to_f
        end
      end
      failure
    end

    # What a stream ends with that was cancelled, or broke, before the server's first sign: gRPC's Ruby then asks
    # for that twice, and raises GRPC::Core::CallError in place of the status.
    def self.of_call(error)
      new(code: Codes::CANCELLED, domain: '', reason: '', message: error.message, metadata: {})
    end

    # Whether the same again may succeed. With a reason the server has decided that; without one, there was
    # no answer: for a call that may be repeated, as all of these examples may, that is worth another try.
    def may_pass?
      reason.empty? ? NO_ANSWER.include?(code) : !retry_delay.nil?
    end

    # The reason, or the name of the code where there is none.
    def name
      reason.empty? ? Codes.constants.find { |name| Codes.const_get(name) == code }.to_s : reason
    end

    def to_s
      "#{name}: #{message}"
    end
  end

  # A call that failed for good: a repetition can't help, or there was no time for more of them.
  class Error < StandardError
    attr_reader :failure

    def initialize(failure)
      super(failure.to_s)
      @failure = failure
    end
  end

  # How long to wait before a repetition: random seconds up to a bound that doubles, on top of what the server
  # asked for. Random, or all whom a server turned away would be back at one moment. Not thread-safe.
  class Backoff
    def initialize
      reset
    end

    def reset
      @failures = 0
    end

    def after(failure)
      bound = [5.0, 0.1 * 2**[@failures, 16].min].min
      @failures += 1
      rand * bound + (failure.retry_delay || 0)
    end
  end

  # Thread-safe, with one stream at a time; one is enough for a program.
  class Client
    DEADLINE = 10 # seconds that one attempt of a call may take
    PATIENCE = 30 # seconds for which a call is repeated: a restart of the server takes less
    CHANNEL = {
      # A message may have 64 MiB; the server's own limits say which.
      'grpc.max_receive_message_length' => -1,
      'grpc.max_send_message_length' => -1,
      # A restarted server shall be found within moments; the default backs off for up to two minutes.
      'grpc.initial_reconnect_backoff_ms' => 100,
      'grpc.min_reconnect_backoff_ms' => 1_000,
      'grpc.max_reconnect_backoff_ms' => 2_000,
      # A server that vanished without a word is found out while a call or a stream waits for it.
      'grpc.keepalive_time_ms' => 15_000,
      'grpc.keepalive_timeout_ms' => 10_000,
      # gRPC pings for reasons of its own, too, and waits a minute for the answer to such a one.
      'grpc.http2.ping_timeout_ms' => 10_000
    }.freeze

    attr_reader :stub

    # Connects on the first call. +address+ is host:port.
    def initialize(address)
      @stub = V1::QueueService::Stub.new(address, :this_channel_is_insecure, channel_args: CHANNEL)
      @lock = Mutex.new
      @changed = ConditionVariable.new
      @stopped = false
      @stream = nil
    end

    # Makes a call that may be repeated, and repeats it as long as that may help; raises Error.
    def call(method, request)
      backoff = Backoff.new
      give_up = monotonic + PATIENCE
      begin
        @stub.public_send(method, request, deadline: Time.now + DEADLINE)
      rescue GRPC::BadStatus => e
        failure = Failure.of_status(e)
        pause = backoff.after(failure)
        in_vain = !failure.may_pass? || monotonic + pause > give_up
        raise Error, failure if in_vain || stopped_within?(pause)

        retry
      end
    end

    # Sends the requests and yields what a stream brings, until it ends or is stopped; returns the Failure that it
    # ended with.
    def stream(method, requests, &block)
      call = @stub.public_send(method, requests, return_op: true)
      frames = call.execute
      @lock.synchronize do
        @stream = call
        call.cancel if @stopped
      end
      frames.each(&block)
      Failure.of_status(GRPC::Unavailable.new('the server ended the stream'))
    rescue GRPC::BadStatus => e
      Failure.of_status(e)
    rescue GRPC::Core::CallError => e
      Failure.of_call(e)
    ensure
      @lock.synchronize { @stream = nil }
      call&.cancel # if anything else went wrong, the server shall not go on with it
    end

    # Ends the stream and pauses; what fails from now on isn't repeated. From any thread, but not from a signal's
    # trap, which may take no lock.
    def stop
      @lock.synchronize do
        @stopped = true
        @changed.broadcast
        @stream&.cancel
      end
    end

    def stopped?
      @lock.synchronize { @stopped }
    end

    # Waits so many seconds, or until #stop: then at once true.
    def stopped_within?(seconds)
      finish = monotonic + seconds
      @lock.synchronize do
        # A condition may wake without a cause.
        until @stopped || (left = finish - monotonic) <= 0
          @changed.wait(@lock, left)
        end
        @stopped
      end
    end

    private

    def monotonic
      Process.clock_gettime(Process::CLOCK_MONOTONIC)
    end
  end

  def self.duration(seconds)
    Google::Protobuf::Duration.new(seconds: seconds.to_i, nanos: (seconds % 1 * 1e9).to_i)
  end
end
