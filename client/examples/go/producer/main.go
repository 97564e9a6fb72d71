// Sends COUNT jobs in batches, with attributes: producer HOST:PORT QUEUE COUNT
//
// A batch whose answer is lost is sent again: its messages carry deduplication ids, so none is stored twice.
package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log"
	"os"
	"strconv"
	"time"

	"example/spoolrack"
	pb "spoolrack/v1"
)

const (
	batch    = 100
	deadline = 30 * time.Second
)

func job(queue string, number int) *pb.OutgoingMessage {
	body := []byte(fmt.Sprintf("job %d", number))
	digest := sha256.Sum256(body)
	return &pb.OutgoingMessage{
		Body: body,
		Attributes: map[string]*pb.Attribute{
			"number": {Value: &pb.Attribute_StringValue{StringValue: strconv.Itoa(number)}},
			"digest": {Value: &pb.Attribute_BinaryValue{BinaryValue: digest[:]}},
		},
		DeduplicationId: fmt.Sprintf("%s-%d", queue, number),
	}
}

// send returns when all messages are on stable media.
func send(ctx context.Context, client pb.QueueServiceClient, queue string, messages []*pb.OutgoingMessage) error {
	for tries := 0; ; tries++ {
		left, failure := trySend(ctx, client, queue, messages)
		if failure == nil {
			return nil
		}
		if !failure.Retryable() {
			return failure
		}
		messages = left
		spoolrack.Pause(ctx, tries, failure)
	}
}

// trySend returns what is not sent yet, and why.
func trySend(
	ctx context.Context, client pb.QueueServiceClient, queue string, messages []*pb.OutgoingMessage,
) (left []*pb.OutgoingMessage, failure *spoolrack.Failure) {
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	response, err := client.Send(ctx, &pb.SendRequest{Queue: queue, Messages: messages})
	if err != nil {
		return messages, spoolrack.FailureOf(err)
	}
	for at, result := range response.Results {
		if refused := spoolrack.FailureIn(result.GetError()); refused != nil {
			left = append(left, messages[at])
			if failure == nil || !refused.Retryable() {
				failure = refused
			}
		}
	}
	return left, failure
}

func main() {
	log.SetFlags(0)
	if len(os.Args) != 4 {
		log.Fatal("usage: producer HOST:PORT QUEUE COUNT")
	}
	queue := os.Args[2]
	count, err := strconv.Atoi(os.Args[3])
	if err != nil {
		log.Fatal(err)
	}
	connection, err := spoolrack.Connect(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	defer connection.Close()
	client := pb.NewQueueServiceClient(connection)

	var messages []*pb.OutgoingMessage
	for number := 1; number <= count; number++ {
		messages = append(messages, job(queue, number))
		if len(messages) == batch || number == count {
			if err := send(context.Background(), client, queue, messages); err != nil {
				log.Fatal(err)
			}
			messages = nil
		}
	}
	fmt.Println("sent", count)
}
