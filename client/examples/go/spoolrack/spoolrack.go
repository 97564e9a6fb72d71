// Package spoolrack is what a client of Spoolrack needs besides the generated stubs: a connection that
// suits it, and what a failure means.
package spoolrack

import (
	"context"
	"math"
	"math/rand"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
)

// Connect returns a connection to host:port. It is made when it is needed, and again whenever it breaks.
func Connect(address string) (*grpc.ClientConn, error) {
	soon := backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 2 * time.Second}
	return grpc.Dial(
		address,
		grpc.WithInsecure(),
		// A server that comes back is found again soon.
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: soon, MinConnectTimeout: 5 * time.Second}),
		// A server that vanished without a word is found out while a call or a stream waits for it.
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 15 * time.Second, Timeout: 10 * time.Second}),
		// Bodies may have 64 MiB; gRPC's own limit is 4.
		grpc.WithDefaultCallOptions(
			grpc.MaxCallRecvMsgSize(math.MaxInt32), grpc.MaxCallSendMsgSize(math.MaxInt32)),
	)
}

// Failure is what a failed call says, or what became of one message of many.
type Failure struct {
	Code     codes.Code
	Message  string
	Domain   string
	Reason   string // stable, for programs; empty where gRPC itself has failed
	Metadata map[string]string
	// How long to wait before a repetition may succeed; nil where the server didn't say.
	Retry *time.Duration
}

func (f *Failure) Error() string {
	return f.Name() + ": " + f.Message
}

// Name is the reason, or the code where there is none.
func (f *Failure) Name() string {
	switch {
	case f.Reason != "":
		return f.Reason
	case f.Code == codes.Unavailable:
		return "UNAVAILABLE"
	}
	return f.Code.String()
}

// Retryable tells whether the same request may succeed later. With a reason the server has decided that. Without
// one the status is gRPC's, or a proxy's on the way: with these codes the server gave no answer.
func (f *Failure) Retryable() bool {
	if f.Reason != "" {
		return f.Retry != nil
	}
	switch f.Code {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled, codes.Internal, codes.Unknown,
		codes.ResourceExhausted:
		return true
	}
	return false
}

// FailureOf reads what a call has failed with.
func FailureOf(err error) *Failure {
	return fromStatus(status.Convert(err))
}

// ReadStatus reads a google.rpc.Status, as it travels in grpc-status-details-bin.
func ReadStatus(s *rpcstatus.Status) *Failure {
	return fromStatus(status.FromProto(s))
}

func fromStatus(s *status.Status) *Failure {
	failure := &Failure{Code: s.Code(), Message: s.Message(), Metadata: map[string]string{}}
	for _, detail := range s.Details() {
		switch detail := detail.(type) {
		case *errdetails.ErrorInfo:
			failure.Domain, failure.Reason = detail.GetDomain(), detail.GetReason()
			for name, fact := range detail.GetMetadata() {
				failure.Metadata[name] = fact
			}
		case *errdetails.RetryInfo:
			failure.Retry = span(detail.GetRetryDelay())
		}
	}
	return failure
}

// FailureIn reads the error in the result of one message of many; nil if there is none.
func FailureIn(s *rpcstatus.Status) *Failure {
	if s == nil {
		return nil
	}
	return ReadStatus(s)
}

func span(d *durationpb.Duration) *time.Duration {
	if d == nil {
		return nil
	}
	duration := d.AsDuration()
	return &duration
}

// Pause waits before the next try: longer each time, and never less than the server asked for. It returns
// early when the context is over.
func Pause(ctx context.Context, tries int, failure *Failure) {
	longest := 100 * time.Millisecond << uint(tries)
	if tries > 4 {
		longest = 2 * time.Second
	}
	pause := time.Duration(rand.Int63n(int64(longest)))
	if failure.Retry != nil && pause < *failure.Retry {
		pause = *failure.Retry
	}
	Sleep(ctx, pause)
}

// Sleep waits so long, or until the context is over; then it returns false.
func Sleep(ctx context.Context, long time.Duration) bool {
	timer := time.NewTimer(long)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
