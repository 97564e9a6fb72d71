# frozen_string_literal: true

# Sends messages to a queue, in batches: ruby producer.rb HOST:PORT QUEUE COUNT

require 'digest'
require_relative 'lib/spoolrack_example'

module SpoolrackExample
  # Sends jobs that are numbered from 1.
  class Producer
    BATCH = 100

    def initialize(client, queue)
      @client = client
      @queue = queue
    end

    def run(count)
      (1..count).each_slice(BATCH) { |numbers| deliver(numbers.map { |number| job(number) }) }
      puts "sent #{count}"
    end

    private

    # Returns once all of the messages are on stable media; raises Error.
    def deliver(messages)
      backoff = Backoff.new
      loop do
        results = @client.call(:send, V1::SendRequest.new(queue: @queue, messages: messages)).results
        failures = results.map { |result| result.error && Failure.of_result(result.error) }
        hopeless = failures.compact.find { |failure| !failure.may_pass? }
        raise Error, hopeless if hopeless

        messages = messages.zip(failures).filter_map { |message, failure| message if failure }
        break if messages.empty?

        # The queue is full, say: wait for those who empty it, and send the rest again.
        why = failures.compact.first
        warn "producer: #{messages.size} again: #{why}"
        sleep(backoff.after(why))
      end
    end

    def job(number)
      # A body is bytes: a string of another encoding would be converted, and one that can't be is refused.
      body = "job #{number}".b
      V1::OutgoingMessage.new(
        body: body,
        attributes: {
          'number' => V1::Attribute.new(string_value: number.to_s),
          'digest' => V1::Attribute.new(binary_value: Digest::SHA256.digest(body))
        },
        # A batch whose answer was lost is sent again: what names its messages keeps them from being stored
        # twice.
        deduplication_id: "#{@queue}-#{number}"
      )
    end
  end
end

abort 'usage: ruby producer.rb HOST:PORT QUEUE COUNT' if ARGV.size != 3
begin
  SpoolrackExample::Producer.new(SpoolrackExample::Client.new(ARGV[0]), ARGV[1]).run(Integer(ARGV[2]))
rescue SpoolrackExample::Error => e
  abort "producer: #{e.message}"
end
