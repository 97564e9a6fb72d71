# frozen_string_literal: true

require_relative 'spoolrack_example'

module SpoolrackExample
  # The leases of messages that wait or are worked on here. They are extended until they are deleted or
  # released: all in one call, three times within a visibility timeout. Thread-safe.
  class Leases
    MOST = 1_000 # what one call may change
    DEFAULT_VISIBILITY = 30.0 # seconds, of a queue whose settings say nothing of it

    # Asks the server how long the queue's leases last. Raises Error.
    def initialize(client, queue)
      @client = client
      @queue = queue
      settings = client.call(:get_queue, V1::GetQueueRequest.new(name: queue)).queue.settings
      @visibility = settings.visibility_timeout&.to_f || DEFAULT_VISIBILITY
      @lock = Mutex.new
      @held = {} # messages by their receipts
      @changed = ConditionVariable.new
      @closed = false
      @keeper = Thread.new { keep }
    end

    def add(messages)
      @lock.synchronize { messages.each { |message| @held[message.receipt] = message } }
    end

    # Whether the lease is still ours, as far as is known: if it isn't, somebody else has the message.
    def holds?(message)
      @lock.synchronize { @held.key?(message.receipt) }
    end

    # Deletes the message for good; false if its lease was over before. Raises Error.
    def delete(message)
      drop([message])
      targets = [V1::DeleteTarget.new(receipt: message.receipt)]
      error = @client.call(:delete, V1::DeleteRequest.new(queue: @queue, targets: targets)).results.first.error
      return true unless error

      failure = Failure.of_result(error)
      return false if failure.reason == 'STALE_RECEIPT'

      raise Error, failure
    end

    # Makes messages ready again at once, for whomever. One whose lease is over is so already. Only those that were
    # begun count as received. Raises Error.
    def release(messages, begun:)
      drop(messages)
      messages.each_slice(MOST) do |some|
        releases = some.map do |message|
          V1::MessageRelease.new(receipt: message.receipt, delay: SpoolrackExample.duration(0), uncounted: !begun)
        end
        @client.call(:release, V1::ReleaseRequest.new(queue: @queue, releases: releases))
      end
    end

    # Lets the leases begin anew, as far as they aren't over. Raises Error.
    def extend_all(messages)
      messages.each_slice(MOST) do |some|
        extensions = some.map do |message|
          V1::LeaseExtension.new(receipt: message.receipt, visibility_timeout: SpoolrackExample.duration(@visibility))
        end
        request = V1::ExtendLeasesRequest.new(queue: @queue, extensions: extensions)
        some.zip(@client.call(:extend_leases, request).results) do |message, result|
          # A message that was deleted or released meanwhile has no lease any more, and needs none.
          warn "worker: lost #{message.id}: #{result.error.message}" if result.error && drop([message])
        end
      end
    end

    # Extends nothing any more.
    def close
      @lock.synchronize do
        @closed = true
        @changed.signal
      end
      @keeper.join
    end

    private

    def keep
      while (messages = held_after(@visibility / 3.0))
        begin
          extend_all(messages)
        rescue Error => e
          # The server may be back before the leases are over.
          warn "worker: leases could not be extended: #{e.message}"
        end
      end
    end

    # What is held so many seconds from now; nil once this is closed.
    def held_after(seconds)
      @lock.synchronize do
        @changed.wait(@lock, seconds) unless @closed
        @held.values unless @closed
      end
    end

    # Whether any of them was held.
    def drop(messages)
      @lock.synchronize { messages.filter_map { |message| @held.delete(message.receipt) }.any? }
    end
  end
end
