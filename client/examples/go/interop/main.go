// The interop driver: does what the tests in tests/interop say, in the words of their PROTOCOL.md.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"log"
	"os"
	"strings"
	"sync"
	"time"

	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/durationpb"

	"example/spoolrack"
	pb "spoolrack/v1"
)

type driver struct {
	connection *grpc.ClientConn
	client     pb.QueueServiceClient
	lock       sync.Mutex
	output     *json.Encoder
	streams    map[string]context.CancelFunc
}

func (d *driver) tell(line interface{}) {
	d.lock.Lock()
	defer d.lock.Unlock()
	if err := d.output.Encode(line); err != nil {
		log.Fatal(err)
	}
}

func (d *driver) answer(line []byte) {
	var asked request
	if err := json.Unmarshal(line, &asked); err != nil {
		log.Fatalf("%v: %s", err, line)
	}
	ctx := context.Background()
	if asked.TimeoutMs != nil {
		limited, cancel := context.WithTimeout(ctx, time.Duration(*asked.TimeoutMs)*time.Millisecond)
		defer cancel()
		ctx = limited
	}
	ok, err := d.do(ctx, &asked)
	if err != nil {
		d.tell(object{"id": asked.ID, "error": told(spoolrack.FailureOf(err))})
	} else {
		d.tell(object{"id": asked.ID, "ok": ok})
	}
}

func (d *driver) do(ctx context.Context, asked *request) (interface{}, error) {
	switch asked.Op {
	case "send":
		response, err := d.client.Send(ctx, &pb.SendRequest{Queue: asked.Queue, Messages: outgoing(asked.Messages)})
		return object{"results": sent(response.GetResults())}, err
	case "send_stream":
		responses, err := d.sendStream(ctx, asked)
		return object{"responses": responses}, err
	case "receive":
		response, err := d.client.Receive(ctx, &pb.ReceiveRequest{
			Queue:             asked.Queue,
			MaxMessages:       asked.Max,
			Wait:              span(asked.WaitMs),
			VisibilityTimeout: span(asked.VisibilityMs),
		})
		return object{"messages": messages(response.GetMessages())}, err
	case "delete":
		targets := []*pb.DeleteTarget{}
		for _, receipt := range asked.Receipts {
			targets = append(targets, &pb.DeleteTarget{Target: &pb.DeleteTarget_Receipt{Receipt: receipt}})
		}
		response, err := d.client.Delete(ctx, &pb.DeleteRequest{Queue: asked.Queue, Targets: targets})
		results := []object{}
		for _, result := range response.GetResults() {
			results = append(results, settled(result.GetError(), object{}))
		}
		return object{"results": results}, err
	case "extend":
		return d.extend(ctx, asked)
	case "release":
		releases := []*pb.MessageRelease{}
		for _, receipt := range asked.Receipts {
			releases = append(releases, &pb.MessageRelease{Receipt: receipt, Delay: durationpb.New(0)})
		}
		response, err := d.client.Release(ctx, &pb.ReleaseRequest{Queue: asked.Queue, Releases: releases})
		results := []object{}
		for _, result := range response.GetResults() {
			results = append(results, settled(result.GetError(), object{}))
		}
		return object{"results": results}, err
	case "stream":
		d.begin(asked)
		return object{}, nil
	case "cancel":
		d.lock.Lock()
		cancel := d.streams[asked.Stream]
		d.lock.Unlock()
		if cancel != nil {
			cancel()
		}
		return object{}, nil
	case "call":
		return d.call(ctx, asked)
	case "recode":
		message := newOf(asked.Type)
		parse(asked.Binary, message)
		text, err := protojson.Marshal(message)
		return object{"binary": write(message), "json": string(text)}, err
	case "status":
		status := &rpcstatus.Status{}
		parse(asked.Binary, protoV2(status))
		return object{"error": told(spoolrack.ReadStatus(status))}, nil
	}
	log.Fatalf("no such op: %s", asked.Op)
	return nil, nil
}

func (d *driver) extend(ctx context.Context, asked *request) (interface{}, error) {
	extensions := []*pb.LeaseExtension{}
	for _, receipt := range asked.Receipts {
		extensions = append(
			extensions, &pb.LeaseExtension{Receipt: receipt, VisibilityTimeout: span(asked.VisibilityMs)})
	}
	response, err := d.client.ExtendLeases(
		ctx, &pb.ExtendLeasesRequest{Queue: asked.Queue, Extensions: extensions})
	results := []object{}
	for _, result := range response.GetResults() {
		done := object{}
		if end := result.GetLeaseExpireTime(); end != nil {
			done["due_ms"] = end.AsTime().UnixNano() / 1e6
		}
		results = append(results, settled(result.GetError(), done))
	}
	return object{"results": results}, err
}

func (d *driver) sendStream(ctx context.Context, asked *request) ([]object, error) {
	stream, err := d.client.StreamSend(ctx)
	if err != nil {
		return nil, err
	}
	go func() {
		// A Send that fails ends the stream, and Recv says why.
		for at, batch := range asked.Batches {
			sending := &pb.SendRequest{Queue: asked.Queue, Messages: outgoing(batch)}
			request := &pb.StreamSendRequest{CorrelationId: int64(at + 1), Request: sending}
			if stream.Send(request) != nil {
				return
			}
		}
		stream.CloseSend()
	}()
	responses := []object{}
	for {
		response, err := stream.Recv()
		if err == io.EOF {
			return responses, nil
		}
		if err != nil {
			return nil, err
		}
		answer := settled(response.GetError(), object{"results": sent(response.GetResponse().GetResults())})
		answer["correlation_id"] = response.CorrelationId
		responses = append(responses, answer)
	}
}

// begin starts a stream, which tells of itself until it ends.
func (d *driver) begin(asked *request) {
	ctx, cancel := context.WithCancel(context.Background())
	if asked.TimeoutMs != nil {
		ctx, cancel = context.WithTimeout(ctx, time.Duration(*asked.TimeoutMs)*time.Millisecond)
	}
	d.lock.Lock()
	d.streams[asked.Stream] = cancel
	d.lock.Unlock()
	follow := func() error {
		stream, err := d.client.StreamReceive(ctx)
		if err == nil {
			// If it fails, Recv tells why.
			start := &pb.ReceiveStart{
				Queue:             asked.Queue,
				MaxInFlight:       asked.MaxInFlight,
				VisibilityTimeout: span(asked.VisibilityMs),
			}
			_ = stream.Send(&pb.StreamReceiveRequest{Frame: &pb.StreamReceiveRequest_Start{Start: start}})
		}
		for err == nil {
			var response *pb.StreamReceiveResponse
			if response, err = stream.Recv(); err == nil {
				d.tell(object{"stream": asked.Stream, "messages": messages(response.GetReceived().GetMessages())})
			}
		}
		return err
	}
	go func() {
		defer cancel()
		end := &spoolrack.Failure{}
		if err := follow(); err != io.EOF {
			end = spoolrack.FailureOf(err)
		}
		d.tell(object{"stream": asked.Stream, "end": told(end)})
	}()
}

// call makes any call without streams, by the names in the contract.
func (d *driver) call(ctx context.Context, asked *request) (interface{}, error) {
	name := protoreflect.FullName(strings.ReplaceAll(asked.Method, "/", "."))
	described, err := protoregistry.GlobalFiles.FindDescriptorByName(name)
	if err != nil {
		return nil, err
	}
	method := described.(protoreflect.MethodDescriptor)
	in, out := newOf(string(method.Input().FullName())), newOf(string(method.Output().FullName()))
	parse(asked.Request, in)
	err = d.connection.Invoke(ctx, "/"+asked.Method, in, out)
	return object{"response": write(out)}, err
}

// newOf returns an empty message of the type with this name.
func newOf(name string) proto.Message {
	kind, err := protoregistry.GlobalTypes.FindMessageByName(protoreflect.FullName(name))
	if err != nil {
		log.Fatal(err)
	}
	return kind.New().Interface()
}

func main() {
	log.SetFlags(0)
	connection, err := spoolrack.Connect(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	d := &driver{
		connection: connection,
		client:     pb.NewQueueServiceClient(connection),
		output:     json.NewEncoder(os.Stdout),
		streams:    map[string]context.CancelFunc{},
	}
	d.tell(object{"ready": true})
	input := bufio.NewReader(os.Stdin)
	for {
		line, err := input.ReadBytes('\n')
		if err == io.EOF {
			return
		}
		if err != nil {
			log.Fatal(err)
		}
		go d.answer(line)
	}
}
