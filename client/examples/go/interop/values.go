package main

import (
	"log"
	"time"

	protov1 "github.com/golang/protobuf/proto"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"example/spoolrack"
	pb "spoolrack/v1"
)

type object map[string]interface{}

// request is a line of the tests: bytes are base64 in JSON, as encoding/json has them.
type request struct {
	ID           int64          `json:"id"`
	Op           string         `json:"op"`
	TimeoutMs    *int64         `json:"timeout_ms"`
	Queue        string         `json:"queue"`
	Stream       string         `json:"stream"`
	Max          int32          `json:"max"`
	MaxInFlight  int32          `json:"max_in_flight"`
	WaitMs       *int64         `json:"wait_ms"`
	VisibilityMs *int64         `json:"visibility_ms"`
	Receipts     []string       `json:"receipts"`
	Messages     []outgoingOf   `json:"messages"`
	Batches      [][]outgoingOf `json:"batches"`
	Method       string         `json:"method"`
	Request      []byte         `json:"request"`
	Type         string         `json:"type"`
	Binary       []byte         `json:"binary"`
}

type outgoingOf struct {
	Body            []byte               `json:"body"`
	Attributes      map[string]attribute `json:"attributes"`
	DelayMs         *int64               `json:"delay_ms"`
	DeduplicationID string               `json:"deduplication_id"`
}

type attribute struct {
	Text  *string `json:"text,omitempty"`
	Bytes *[]byte `json:"bytes,omitempty"`
}

func outgoing(all []outgoingOf) []*pb.OutgoingMessage {
	made := []*pb.OutgoingMessage{}
	for _, one := range all {
		attributes := map[string]*pb.Attribute{}
		for name, value := range one.Attributes {
			if value.Text != nil {
				attributes[name] = &pb.Attribute{Value: &pb.Attribute_StringValue{StringValue: *value.Text}}
			} else {
				attributes[name] = &pb.Attribute{Value: &pb.Attribute_BinaryValue{BinaryValue: *value.Bytes}}
			}
		}
		made = append(made, &pb.OutgoingMessage{
			Body: one.Body, Attributes: attributes, Delay: span(one.DelayMs), DeduplicationId: one.DeduplicationID,
		})
	}
	return made
}

func messages(all []*pb.Message) []object {
	made := []object{}
	for _, one := range all {
		attributes := map[string]attribute{}
		for name, value := range one.Attributes {
			switch value := value.Value.(type) {
			case *pb.Attribute_StringValue:
				attributes[name] = attribute{Text: &value.StringValue}
			case *pb.Attribute_BinaryValue:
				bytes := append([]byte{}, value.BinaryValue...)
				attributes[name] = attribute{Bytes: &bytes}
			}
		}
		made = append(made, object{
			"id":            one.Id,
			"body":          append([]byte{}, one.Body...), // none is "" and not null
			"attributes":    attributes,
			"size":          one.BodySize,
			"receive_count": one.ReceiveCount,
			"receipt":       one.Receipt,
			"send_ms":       one.SendTime.AsTime().UnixNano() / int64(time.Millisecond),
		})
	}
	return made
}

func sent(results []*pb.SendResult) []object {
	made := []object{}
	for _, result := range results {
		made = append(made, settled(result.GetError(), object{"id": result.GetSent().GetId()}))
	}
	return made
}

// settled is what became of one message: the error, where there is one.
func settled(refused *rpcstatus.Status, done object) object {
	if failure := spoolrack.FailureIn(refused); failure != nil {
		return object{"error": told(failure)}
	}
	return done
}

func told(failure *spoolrack.Failure) object {
	made := object{
		"code":     int(failure.Code),
		"message":  failure.Message,
		"domain":   failure.Domain,
		"reason":   failure.Reason,
		"metadata": map[string]string{},
		"retry_ms": nil,
	}
	if failure.Metadata != nil {
		made["metadata"] = failure.Metadata
	}
	if failure.Retry != nil {
		made["retry_ms"] = failure.Retry.Milliseconds()
	}
	return made
}

func span(millis *int64) *durationpb.Duration {
	if millis == nil {
		return nil
	}
	return durationpb.New(time.Duration(*millis) * time.Millisecond)
}

func parse(binary []byte, message proto.Message) {
	if err := proto.Unmarshal(binary, message); err != nil {
		log.Fatal(err)
	}
}

func write(message proto.Message) []byte {
	binary, err := proto.Marshal(message)
	if err != nil {
		log.Fatal(err)
	}
	return append([]byte{}, binary...)
}

// protoV2 makes a message of an older generator one that this package knows.
func protoV2(message protov1.Message) proto.Message {
	return protov1.MessageV2(message)
}
