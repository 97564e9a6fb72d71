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
	"google.golang.org/protobuf/types/known/emptypb"

	"example/spoolrack"
	pb "spoolrack/v1"
)

const (
	inFlight = 10
	deadline = 30 * time.Second
	patience = 5 * time.Second // for the end of a stream
)

type worker struct {
	client pb.QueueServiceClient
	queue  string
}

// extend gives the lease a new end; false if it was lost.
func (w *worker) extend(ctx context.Context, message *pb.Message, long time.Duration) (bool, error) {
	extension := &pb.LeaseExtension{Receipt: message.Receipt, VisibilityTimeout: durationpb.New(long)}
	return settle(ctx, func(ctx context.Context) (*rpcstatus.Status, error) {
		response, err := w.client.ExtendLeases(
			ctx, &pb.ExtendLeasesRequest{Queue: w.queue, Extensions: []*pb.LeaseExtension{extension}})
		if err != nil {
			return nil, err
		}
		return response.Results[0].GetError(), nil
	})
}

// fail makes the message ready again after the queue's back-off; false if its lease was lost.
func (w *worker) fail(ctx context.Context, message *pb.Message) (bool, error) {
	return w.release(ctx, &pb.MessageRelease{Receipt: message.Receipt})
}

// giveBack makes the message ready again at once. Only one that was begun counts as received.
func (w *worker) giveBack(ctx context.Context, message *pb.Message, begun bool) error {
	_, err := w.release(
		ctx, &pb.MessageRelease{Receipt: message.Receipt, Delay: durationpb.New(0), Uncounted: !begun})
	return err
}

func (w *worker) release(ctx context.Context, release *pb.MessageRelease) (bool, error) {
	return settle(ctx, func(ctx context.Context) (*rpcstatus.Status, error) {
		response, err := w.client.Release(
			ctx, &pb.ReleaseRequest{Queue: w.queue, Releases: []*pb.MessageRelease{release}})
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
		ours, err := w.fail(ctx, message)
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
		if ours, err := w.extend(ctx, message, takes+time.Minute); !ours {
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
	life, cancel := context.WithCancel(context.Background())
	defer cancel()
	stream, err := w.client.StreamReceive(life)
	if err != nil {
		return err
	}
	start := &pb.ReceiveStart{Queue: w.queue, MaxInFlight: inFlight}
	// If it fails, Recv tells why.
	_ = stream.Send(&pb.StreamReceiveRequest{Frame: &pb.StreamReceiveRequest_Start{Start: start}})
	go func() {
		select {
		case <-ctx.Done():
		case <-life.Done():
			return
		}
		// Messages on their way still arrive, to be released below, and then the stream ends.
		stop := &pb.StreamReceiveRequest_Stop{Stop: &emptypb.Empty{}}
		_ = stream.Send(&pb.StreamReceiveRequest{Frame: stop})
		_ = stream.CloseSend()
		if spoolrack.Sleep(life, patience) {
			cancel()
		}
	}()
	for {
		response, err := stream.Recv()
		if err != nil {
			return err
		}
		for _, message := range response.GetReceived().GetMessages() {
			err, begun := ctx.Err(), ctx.Err() == nil
			if begun {
				err = w.work(ctx, message)
			}
			if err == nil {
				continue
			}
			if ctx.Err() == nil {
				return err
			}
			// We are stopping: it goes back to its place.
			if err := w.giveBack(context.Background(), message, begun); err != nil {
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
