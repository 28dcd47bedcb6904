package load

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/lab/load/lean"
)

const (
	// afterLoss is how long a connection waits in a closed loop after its server was lost.
	afterLoss = 100 * time.Millisecond
	// drainTime is how long the run waits for answers once it was stopped.
	drainTime = 5 * time.Second
)

// caller is a connection that calls the daemon.
type caller interface {
	net.Conn
	// call sends a request and reads the answer. After an error that is no refusal, the connection
	// is closed.
	call(request []byte) (reply, error)
}

// reply is what the daemon says about a batch.
type reply struct {
	total, duplicates int64
	size              int64 // in bytes
	last              bool  // nothing more can be sent
}

// overHTTP is a caller by HTTP.
type overHTTP struct {
	*lean.Conn
	protocol Protocol
}

func (h overHTTP) call(request []byte) (a reply, err error) {
	said, err := h.Exchange(request)
	if err != nil {
		return a, err
	}
	a.size, a.last = said.Size, said.Close
	a.total, a.duplicates, err = h.protocol.read(said)
	return a, err
}

// worker is one connection of a run.
type worker struct {
	*run
	conn    caller // nil: none
	source  source
	request *request
}

// open makes the connection.
func (w *worker) open(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, w.o.Timeout)
	defer cancel()
	conn, err := w.o.Dial(ctx)
	if err != nil {
		return err
	}
	if w.o.Protocol != RESP {
		w.conn = overHTTP{lean.New(conn), w.o.Protocol}
		return nil
	}
	_ = conn.SetDeadline(time.Now().Add(w.o.Timeout)) // if it fails, the call reports what is wrong
	c := newRESP(conn)
	if w.o.Token != "" {
		if err = c.logIn(w.o.Token); err != nil {
			_ = conn.Close()
			return err
		}
	}
	w.conn = c
	return nil
}

func (w *worker) close() {
	if w.conn != nil {
		_ = w.conn.Close()
		w.conn = nil
	}
}

// prime makes the connection, and sends a batch of new items, which later batches can repeat.
func (w *worker) prime(ctx context.Context) error {
	if err := w.open(ctx); err != nil {
		return err
	}
	g, ok := w.source.(*generated)
	if !ok {
		return nil
	}
	w.request.reset()
	g.prime(w.request, w.o.Batch)
	o := w.exchange(ctx)
	return o.err
}

// work sends batches until the time is over.
func (w *worker) work(ctx context.Context) error {
	defer w.close()
	free := time.Now()
	for {
		due, ok := w.schedule.nextDue()
		if !ok {
			return nil
		}
		w.request.reset()
		expected, err := w.source.fill(w.request, w.o.Batch)
		if err != nil {
			return err
		}
		if w.schedule.open() {
			w.o.Sleep(ctx, due)
		}
		sent := time.Now()
		if !w.schedule.open() {
			due = sent
		}
		if ctx.Err() != nil || !sent.Before(w.end) {
			w.schedule.giveBack(due)
			return nil
		}
		o := w.exchange(ctx)
		o.due, o.sent, o.expected, o.items = due, sent, expected, w.o.Batch
		o.counts = !sent.Before(w.measured)
		o.inTime = w.schedule.open() && free.Before(due)
		w.recorder.add(o)
		w.source.settle(o.err == nil)
		if w.conn == nil && !w.schedule.open() {
			sleepUntil(ctx, time.Now().Add(afterLoss))
		}
		free = time.Now()
	}
}

// exchange sends the batch.
func (w *worker) exchange(ctx context.Context) (o outcome) {
	o.duplicates, o.err = w.try(ctx, &o)
	o.ended = time.Now()
	if o.err != nil && !errors.As(o.err, new(*refusal)) {
		w.close()
	}
	return o
}

func (w *worker) try(ctx context.Context, o *outcome) (duplicates int64, err error) {
	if w.conn == nil {
		if err := w.open(ctx); err != nil {
			return 0, err
		}
	}
	_ = w.conn.SetDeadline(time.Now().Add(w.o.Timeout)) // if it fails, the exchange reports what is wrong
	stop := context.AfterFunc(ctx, hurry(w.conn, min(drainTime, w.o.Timeout)))
	defer stop()
	text := w.request.whole()
	o.out = int64(len(text))
	answer, err := w.conn.call(text)
	o.in = answer.size
	total, duplicates := answer.total, answer.duplicates
	if err == nil && total != int64(w.o.Batch) {
		err = fmt.Errorf("%w: it is about %d items, and %d were sent", errOddAnswer, total, w.o.Batch)
	}
	if answer.last {
		w.close()
	}
	return duplicates, err
}

// hurry returns a function that gives a connection d to finish.
func hurry(conn net.Conn, d time.Duration) func() {
	return func() { _ = conn.SetDeadline(time.Now().Add(d)) }
}
