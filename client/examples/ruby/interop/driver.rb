# frozen_string_literal: true

# Lets the tests of tests/interop use this language's client: a line of JSON is a request, a line of JSON its
# answer, as PROTOCOL.md there fixes. No example of how to use the queue: producer.rb and worker.rb are.

require 'json'
require_relative '../lib/spoolrack_example'
require 'spoolrack/v1/redrive_service_services_pb'
require 'spoolrack/v1/reservation_service_services_pb'
require 'spoolrack/v1/schedule_service_services_pb'
require 'spoolrack/v1/staging_service_services_pb'

module SpoolrackExample
  # One process, one channel.
  class Driver
    OPS = %w[send send_stream receive delete extend release stream cancel call recode status].freeze

    def initialize(address)
      @stub = Client.new(address).stub
      @streams = {}
      @lock = Mutex.new
    end

    def write(line)
      @lock.synchronize do
        $stdout.write("#{JSON.generate(line)}\n")
        $stdout.flush
      end
    end

    # A thread for each request: a long poll keeps nobody waiting.
    def answer(asked)
      raise "no such op: #{asked['op']}" unless OPS.include?(asked['op'])

      begin
        write('id' => asked['id'], 'ok' => send("do_#{asked['op']}", asked))
      rescue GRPC::BadStatus => e
        write('id' => asked['id'], 'error' => told_failure(Failure.of_status(e)))
      end
    end

    private

    # Without a deadline gRPC's Ruby would take none either.
    def options(asked)
      asked.key?('timeout_ms') ? { deadline: Time.now + asked['timeout_ms'] / 1000.0 } : {}
    end

    def do_send(asked)
      request = V1::SendRequest.new(queue: asked['queue'], messages: asked['messages'].map { |it| outgoing(it) })
      { 'results' => told_results(@stub.public_send(:send, request, **options(asked)).results) }
    end

    def do_send_stream(asked)
      requests = asked['batches'].each_with_index.map do |batch, at|
        sending = V1::SendRequest.new(queue: asked['queue'], messages: batch.map { |it| outgoing(it) })
        V1::StreamSendRequest.new(correlation_id: at + 1, request: sending)
      end
      responses = @stub.stream_send(requests, **options(asked)).map do |response|
        outcome = if response.error
                    { 'error' => told_error(response.error) }
                  else
                    { 'results' => told_results(response.response.results) }
                  end
        { 'correlation_id' => response.correlation_id }.merge(outcome)
      end
      { 'responses' => responses }
    end

    def do_receive(asked)
      request = V1::ReceiveRequest.new(queue: asked['queue'], max_messages: asked.fetch('max', 0))
      request.wait = duration(asked['wait_ms']) if asked.key?('wait_ms')
      request.visibility_timeout = duration(asked['visibility_ms']) if asked.key?('visibility_ms')
      { 'messages' => @stub.receive(request, **options(asked)).messages.map { |it| told_message(it) } }
    end

    def do_delete(asked)
      targets = asked['receipts'].map { |receipt| V1::DeleteTarget.new(receipt: receipt) }
      results = @stub.delete(V1::DeleteRequest.new(queue: asked['queue'], targets: targets), **options(asked)).results
      { 'results' => results.map { |result| result.error ? { 'error' => told_error(result.error) } : {} } }
    end

    def do_extend(asked)
      extensions = asked['receipts'].map do |receipt|
        V1::LeaseExtension.new(receipt: receipt, visibility_timeout: duration(asked['visibility_ms']))
      end
      request = V1::ExtendLeasesRequest.new(queue: asked['queue'], extensions: extensions)
      results = @stub.extend_leases(request, **options(asked)).results.map do |result|
        told = result.error ? { 'error' => told_error(result.error) } : {}
        end_time = result.lease_expire_time
        end_time ? told.merge('due_ms' => milliseconds(end_time)) : told
      end
      { 'results' => results }
    end

    def do_release(asked)
      releases = asked['receipts'].map { |receipt| V1::MessageRelease.new(receipt: receipt, delay: duration(0)) }
      results = @stub.release(V1::ReleaseRequest.new(queue: asked['queue'], releases: releases), **options(asked)).results
      { 'results' => results.map { |result| result.error ? { 'error' => told_error(result.error) } : {} } }
    end

    def do_stream(asked)
      start = V1::ReceiveStart.new(queue: asked['queue'], max_in_flight: asked.fetch('max_in_flight', 0))
      start.visibility_timeout = duration(asked['visibility_ms']) if asked.key?('visibility_ms')
      call = @stub.stream_receive([V1::StreamReceiveRequest.new(start: start)], return_op: true, **options(asked))
      frames = call.execute
      @lock.synchronize { @streams[asked['stream']] = call }
      Thread.new { follow(asked['stream'], frames) }
      {}
    end

    def follow(name, frames)
      frames.each { |frame| write('stream' => name, 'messages' => frame.received.messages.map { |it| told_message(it) }) }
      write('stream' => name, 'end' => told_failure(Failure.of_status(GRPC::BadStatus.new(Codes::OK, ''))))
    rescue GRPC::BadStatus => e
      write('stream' => name, 'end' => told_failure(Failure.of_status(e)))
    rescue GRPC::Core::CallError => e
      write('stream' => name, 'end' => told_failure(Failure.of_call(e)))
    end

    def do_cancel(asked)
      @lock.synchronize { @streams.fetch(asked['stream']) }.cancel
      {}
    end

    # Any method, by its name in the contract.
    def do_call(asked)
      input, output = rpc(*asked['method'].split('/'))
      response = @stub.request_response("/#{asked['method']}", input.decode(raw(asked['request'])),
                                        ->(request) { input.encode(request) }, ->(bytes) { output.decode(bytes) },
                                        **options(asked))
      { 'response' => text(output.encode(response)) }
    end

    def rpc(service, name)
      description = V1.const_get(service.split('.').last)::Service.rpc_descs.fetch(name.to_sym)
      [description.input, description.output]
    end

    def do_recode(asked)
      type = Google::Protobuf::DescriptorPool.generated_pool.lookup(asked['type']).msgclass
      { 'binary' => text(type.encode(type.decode(raw(asked['binary'])))) }
    end

    def do_status(asked)
      details = raw(asked['binary'])
      status = Google::Rpc::Status.decode(details)
      error = GRPC::BadStatus.new_status_exception(status.code, status.message, 'grpc-status-details-bin' => details)
      { 'error' => told_failure(Failure.of_status(error)) }
    end

    def outgoing(told)
      message = V1::OutgoingMessage.new(body: raw(told['body']),
                                        deduplication_id: told.fetch('deduplication_id', ''))
      told.fetch('attributes', {}).each do |name, value|
        message.attributes[name] =
          if value.key?('text')
            V1::Attribute.new(string_value: value['text'])
          else
            V1::Attribute.new(binary_value: raw(value['bytes']))
          end
      end
      message.delay = duration(told['delay_ms']) if told.key?('delay_ms')
      message
    end

    def told_message(message)
      { 'id' => message.id, 'body' => text(message.body), 'size' => message.body_size,
        'receive_count' => message.receive_count, 'receipt' => message.receipt,
        'send_ms' => milliseconds(message.send_time),
        # Not to_h: it makes hashes of the values, too, which can't tell which of the two is set.
        'attributes' => message.attributes.map { |name, value| [name, told_attribute(value)] }.to_h }
    end

    def told_attribute(value)
      value.value == :string_value ? { 'text' => value.string_value } : { 'bytes' => text(value.binary_value) }
    end

    def told_results(results)
      results.map { |result| result.error ? { 'error' => told_error(result.error) } : { 'id' => result.sent.id } }
    end

    def told_error(error)
      told_failure(Failure.of_result(error))
    end

    def told_failure(failure)
      retry_ms = failure.retry_delay && (failure.retry_delay * 1000).round
      { 'code' => failure.code, 'message' => failure.message, 'domain' => failure.domain,
        'reason' => failure.reason, 'metadata' => failure.metadata, 'retry_ms' => retry_ms }
    end

    def duration(millis)
      Google::Protobuf::Duration.new(seconds: millis / 1000, nanos: millis % 1000 * 1_000_000)
    end

    def milliseconds(timestamp)
      timestamp.seconds * 1000 + timestamp.nanos / 1_000_000
    end

    def raw(text)
      text.unpack1('m0')
    end

    def text(raw)
      [raw].pack('m0')
    end
  end
end

# What a thread didn't foresee ends the process, and the test sees it.
Thread.abort_on_exception = true
driver = SpoolrackExample::Driver.new(ARGV.fetch(0))
driver.write('ready' => true)
$stdin.each_line do |line|
  asked = JSON.parse(line)
  Thread.new { driver.answer(asked) }
end
exit!(0) # streams and polls may still wait for what nobody hears
