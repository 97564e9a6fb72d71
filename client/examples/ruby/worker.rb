# frozen_string_literal: true

# Works on the messages of a queue until SIGTERM or Ctrl-C: streams them, keeps their leases, deletes what is
# done, releases what failed or was never begun, and outlives restarts of the server.
#
#   ruby worker.rb HOST:PORT QUEUE
#
# Three kinds of threads: one reads the stream, a few work, and one extends the leases; the main one waits for a
# signal. The server's credits bound what waits here, so that nothing else has to.

require_relative 'lib/leases'
require_relative 'lib/spoolrack_example'

module SpoolrackExample
  # One queue's worker.
  class Worker
    THREADS = 4
    MAX_IN_FLIGHT = 10 # how many messages we hold at most: those that are worked on, and a few that wait

    def initialize(client, queue)
      @client = client
      @queue = queue
      @leases = Leases.new(client, queue)
      @waiting = Thread::Queue.new
      @threads = Array.new(THREADS) { Thread.new { settle_all } }
    end

    # Works until the client is stopped, through any number of connections. Raises Error if the stream fails in
    # a way that no repetition mends, such as a queue that isn't there.
    def run
      backoff = Backoff.new
      loop do
        failure = follow(backoff)
        break if @client.stopped?
        raise Error, failure unless failure.may_pass?

        say 'reconnecting', failure.name
        break if @client.stopped_within?(backoff.after(failure))
      end
    end

    # Finishes what is nearly done, and gives the rest back: others can have it at once.
    def close
      never = []
      never << @waiting.pop(true) until @waiting.empty?
      @waiting.close
      begin
        @leases.release(never, begun: false)
      rescue Error => e
        warn "worker: could not give messages back: #{e.message}"
      end
      @threads.each(&:join)
      @leases.close
    end

    private

    # Takes messages until the stream ends; returns why it did.
    def follow(backoff)
      start = V1::ReceiveStart.new(queue: @queue, max_in_flight: MAX_IN_FLIGHT)
      @client.stream(:stream_receive, [V1::StreamReceiveRequest.new(start: start)]) do |frame|
        backoff.reset
        @leases.add(frame.received.messages)
        frame.received.messages.each { |message| @waiting << message }
      end
    end

    def settle_all
      while (message = @waiting.pop)
        # A message whose lease was lost while it waited comes again, to whomever.
        settle(message) if @leases.holds?(message)
      end
    end

    def settle(message)
      if !succeeded?(message)
        # At once. One that fails for a while is better extended by the pause that it shall have, and not
        # released: then it doesn't go round and round, and keeps its credit.
        @leases.release([message], begun: true)
        say 'released', message.id
      elsif @leases.delete(message) # only now: if we died before, the message would come again
        say 'done', message.id, message.body
      else
        say 'late', message.id # somebody else has it, or will
      end
    rescue Error => e
      warn "worker: #{message.id} comes again: #{e.message}"
    end

    def succeeded?(message)
      work(message)
    rescue StandardError => e
      # Whatever goes wrong in there must not keep the message leased for ever.
      warn "worker: #{message.id} failed: #{e.message}"
      false
    end

    # Stands for your own work; false if it failed. What it does is in the attributes: "fails" at the first
    # receive; "slow" takes so many milliseconds, be it longer than a lease, and begins with a fresh one. What
    # takes long must see that we stop, and give up.
    def work(message)
      return false if message.receive_count == 1 && message.attributes['fails']

      if (slow = message.attributes['slow'])
        @leases.extend_all([message])
        say 'extended', message.id
        return !@client.stopped_within?(Integer(slow.string_value, 10) / 1000.0)
      end
      true
    end

    # In one write, or the lines of two threads could mix; bytes as they are.
    def say(*words)
      $stdout.write("#{words.map(&:b).join(' ')}\n")
    end
  end
end

abort 'usage: ruby worker.rb HOST:PORT QUEUE' if ARGV.size != 2
$stdout.sync = true
signals = Thread::Queue.new
%w[TERM INT].each { |name| trap(name) { signals << name } }

client = SpoolrackExample::Client.new(ARGV[0])
working = Thread.new do
  Thread.current.report_on_exception = false # `value` below raises it
  worker = SpoolrackExample::Worker.new(client, ARGV[1])
  begin
    worker.run
  ensure
    client.stop
    worker.close
  end
ensure
  signals << nil
end
signal = signals.pop
client.stop
begin
  working.value
rescue SpoolrackExample::Error => e
  warn "worker: #{e.message}"
  exit 1 unless signal
end
puts 'stopped'
