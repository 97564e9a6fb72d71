// Works on the messages of a queue, one after the other: worker HOST:PORT QUEUE
//
// It receives from a stream, deletes what is done, extends the lease of what is slow, releases what fails, and
// connects again when the server drains, dies or restarts. SIGTERM and Ctrl-C stop it: what it holds goes back.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"example/spoolrack"
	pb "spoolrack/v1"
)

const (
	inFlight = 10
	deadline = 30 * time.Second
)

type worker struct {
	client pb.QueueServiceClient
	queue  string
}

// change gives the lease a new end; false if it was lost. No time at all releases it.
func (w *worker) change(ctx context.Context, message *pb.Message, long time.Duration) (bool, error) {
	change := &pb.VisibilityChange{Receipt: message.Receipt, VisibilityTimeout: durationpb.New(long)}
	return settle(ctx, func(ctx context.Context) (*rpcstatus.Status, error) {
		response, err := w.client.ChangeVisibility(
			ctx, &pb.ChangeVisibilityRequest{Queue: w.queue, Changes: []*pb.VisibilityChange{change}})
		if err != nil {
			return nil, err
		}
		return response.Results[0].GetError(), nil
	})
}

// remove deletes the message; false if its lease was lost.
func (w *worker) remove(ctx context.Context, message *pb.Message) (bool, error) {
	target := &pb.DeleteTarget{Target: &pb.DeleteTarget_Receipt{Receipt: message.Receipt}}
	return settle(ctx, func(ctx context.Context) (*rpcstatus.Status, error) {
		response, err := w.client.Delete(
			ctx, &pb.DeleteRequest{Queue: w.queue, Targets: []*pb.DeleteTarget{target}})
		if err != nil {
			return nil, err
		}
		return response.Results[0].GetError(), nil
	})
}

// settle asks for something about one message until the server has answered, or ctx is over.
func settle(ctx context.Context, ask func(context.Context) (*rpcstatus.Status, error)) (bool, error) {
	for tries := 0; ; tries++ {
		limited, cancel := context.WithTimeout(ctx, deadline)
		refused, err := ask(limited)
		cancel()
		failure := spoolrack.FailureIn(refused)
		if err != nil {
			failure = spoolrack.FailureOf(err)
		}
		switch {
		case failure == nil:
			return true, nil
		case failure.Reason == "STALE_RECEIPT":
			return false, nil
		case !failure.Retryable() || ctx.Err() != nil:
			return false, failure
		}
		spoolrack.Pause(ctx, tries, failure)
	}
}

func (w *worker) work(ctx context.Context, message *pb.Message) error {
	if _, fails := message.Attributes["fails"]; fails && message.ReceiveCount == 1 {
		ours, err := w.change(ctx, message, 0)
		if ours {
			fmt.Println("released", message.Id)
		}
		return err
	}
	if slow, ok := message.Attributes["slow"]; ok {
		millis, err := strconv.Atoi(slow.GetStringValue())
		if err != nil {
			return err
		}
		takes := time.Duration(millis) * time.Millisecond
		if ours, err := w.change(ctx, message, takes+time.Minute); !ours {
			return err
		}
		fmt.Println("extended", message.Id)
		if !spoolrack.Sleep(ctx, takes) {
			return ctx.Err()
		}
	}
	ours, err := w.remove(ctx, message)
	if ours {
		fmt.Printf("done %s %s\n", message.Id, message.Body)
	}
	return err
}

// follow works on what one stream brings, until it ends; it returns why it did.
func (w *worker) follow(ctx context.Context) error {
	stream, err := w.client.StreamReceive(ctx)
	if err != nil {
		return err
	}
	// If it fails, Recv tells why.
	_ = stream.Send(&pb.StreamReceiveRequest{Queue: w.queue, MaxInFlight: inFlight})
	for {
		response, err := stream.Recv()
		if err != nil {
			return err
		}
		for _, message := range response.Messages {
			err := ctx.Err()
			if err == nil {
				err = w.work(ctx, message)
			}
			if err == nil {
				continue
			}
			if ctx.Err() == nil {
				return err
			}
			// We are stopping: it goes back to its place at once.
			if _, err := w.change(context.Background(), message, 0); err != nil {
				return err
			}
		}
	}
}

func main() {
	log.SetFlags(0)
	if len(os.Args) != 3 {
		log.Fatal("usage: worker HOST:PORT QUEUE")
	}
	connection, err := spoolrack.Connect(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	defer connection.Close()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	w := &worker{client: pb.NewQueueServiceClient(connection), queue: os.Args[2]}

	for tries := 0; ; tries++ {
		begun := time.Now()
		err := w.follow(ctx)
		if ctx.Err() != nil {
			break
		}
		failure := spoolrack.FailureOf(err)
		if !failure.Retryable() {
			log.Fatal(err)
		}
		fmt.Println("reconnecting", failure.Name())
		if time.Since(begun) > 5*time.Second {
			tries = 0
		}
		spoolrack.Pause(ctx, tries, failure)
	}
	fmt.Println("stopped")
}
