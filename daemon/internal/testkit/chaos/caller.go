//go:build unix

package chaos

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cr-clawer/urifilter/client"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/history"
)

// asker is a client: the Go client or one of Redis in this process, or the Python client in another.
type asker interface {
	// Filter returns which items were new. The error is one of the Go client's, or a toldError.
	Filter(ctx context.Context, filter string, items []string, _ ...client.CallOption) ([]string, error)
	Check(ctx context.Context, filter string, items []string, _ ...client.CallOption) ([]bool, error)
	// URL is the address that answered, or that was asked last.
	URL() string
	Close()
}

// toldError is what another client than that of Go says of a call.
type toldError struct {
	code    string
	inDoubt bool // items may be remembered
}

func (e *toldError) Error() string { return e.code }

// attempts counts the requests of a client, which repeats some calls by itself.
type attempts struct {
	http.RoundTripper
	n atomic.Int64
}

func (a *attempts) RoundTrip(r *http.Request) (*http.Response, error) {
	a.n.Add(1)
	return a.RoundTripper.RoundTrip(r)
}

// caller asks for items of one memory until the round ends.
type caller struct {
	name    string
	memory  int
	asker   asker
	doubt   client.Doubt
	tried   *attempts
	rnd     *rand.Rand
	round   *round
	daemons []*daemon
	calls   []history.Call
	odd     []string // answers that no daemon may give
}

func (r *round) newCaller(name string, memory int, daemons []*daemon, doubt client.Doubt, seed uint64) (*caller, error) {
	c := &caller{
		name: name, memory: memory, doubt: doubt, round: r, daemons: daemons,
		tried: &attempts{RoundTripper: &http.Transport{MaxIdleConnsPerHost: 4}},
		rnd:   rand.New(rand.NewPCG(r.seed, seed)),
	}
	patience := time.Duration(c.rnd.IntN(1500)) * time.Millisecond
	cl, err := client.New(addresses(daemons), client.WithTimeout(4*time.Second), client.WithPatience(patience), client.WithInDoubt(doubt),
		client.WithHTTPClient(&http.Client{Transport: c.tried}))
	c.asker = cl
	return c, err
}

func (c *caller) run(ctx context.Context) {
	for ctx.Err() == nil {
		b := c.round.pools[c.memory].choose(c.rnd, c.round.elapsed())
		c.makeCall(ctx, b, c.rnd.IntN(8) == 0)
		pause(ctx, time.Duration(c.rnd.IntN(c.round.campaign.pace()))*time.Millisecond)
	}
	c.asker.Close()
}

// makeCall makes one call and notes its outcome. A call is not broken off when the round ends,
// because its outcome must be known.
func (c *caller) makeCall(ctx context.Context, b batch, look bool) {
	ctx = context.WithoutCancel(ctx)
	texts := b.texts(c.round.seed)
	before := c.lives()
	call := history.Call{Caller: c.name, Filter: b.key(c.memory), Expire: b.expire(), Items: b.items, Invoke: c.round.elapsed()}
	outcomes := make([]history.Outcome, len(b.items))
	var err error
	tried := c.tried.n.Load()
	if look {
		var fresh []bool
		fresh, err = c.asker.Check(ctx, b.filter, texts)
		for i := range fresh {
			outcomes[i] = history.Present
			if fresh[i] {
				outcomes[i] = history.Absent
			}
		}
	} else {
		var fresh []string
		fresh, err = c.asker.Filter(ctx, b.filter, texts)
		if err == nil && !c.place(outcomes, texts, fresh) {
			c.odd = append(c.odd, fmt.Sprintf("%s: the new items are not among those sent, in their order", call.Filter))
		}
	}
	call.Return = c.round.elapsed()
	call.Daemon, call.Life = c.answered(before)
	if err != nil {
		o := c.outcomeOf(err)
		if look {
			o = history.Refused // nothing was to be remembered
		}
		for i := range outcomes {
			outcomes[i] = o
		}
		call.Told = toldOf(err)
		if !look {
			c.round.pools[c.memory].trouble(b)
		}
	}
	call.Outcomes = outcomes
	c.calls = append(c.calls, call)
	if !look && err == nil && c.doubt != client.DoubtError && c.tried.n.Load() > tried+1 {
		c.calls = append(c.calls, lostAttempt(call))
	}
	c.round.count(&call, len(b.items))
}

// lostAttempt returns what a client does not report about a call that it has repeated: an
// attempt whose outcome nobody knows.
func lostAttempt(call history.Call) history.Call {
	call.Outcomes = slices.Repeat([]history.Outcome{history.Unknown}, len(call.Items))
	call.Told = "an attempt that was repeated"
	return call
}

// place notes which of the items were new; fresh has them in the order of texts.
func (c *caller) place(outcomes []history.Outcome, texts, fresh []string) bool {
	isNew, isSeen := history.New, history.Seen
	switch c.doubt {
	case client.DoubtSeen: // an earlier attempt that was lost may have got it
		isSeen = history.Unknown
	case client.DoubtNew: // it may be new as many times as answers are lost
		isNew = history.Unknown
	}
	return place(outcomes, texts, fresh, isNew, isSeen)
}

func place(outcomes []history.Outcome, texts, fresh []string, isNew, isSeen history.Outcome) bool {
	next := 0
	for i, text := range texts {
		outcomes[i] = isSeen
		if next < len(fresh) && fresh[next] == text {
			outcomes[i] = isNew
			next++
		}
	}
	return next == len(fresh)
}

// outcomeOf returns the outcome that an error of a filter call promises.
func (c *caller) outcomeOf(err error) history.Outcome {
	var other *toldError
	switch {
	case errors.As(err, &other) && other.inDoubt:
	case isOdd(err):
		c.odd = append(c.odd, err.Error())
	case !client.InDoubt(err):
		return history.Refused
	}
	return history.Unknown
}

// isOdd reports whether an error is about an answer that no daemon may give. Any other is that of
// an attempt, or has it in it, and that one names its request.
func isOdd(err error) bool {
	var broken *client.ConnectionError
	if errors.As(err, &broken) && broken.Method == "" {
		err = broken.Err
	}
	return !errors.As(err, new(*toldError)) && !errors.As(err, new(*client.Error)) && !errors.As(err, &broken)
}

// toldOf returns the stable word of an error, or its cause.
func toldOf(err error) string {
	var answered *client.Error
	var broken *client.ConnectionError
	var other *toldError
	switch {
	case errors.As(err, &other):
		return other.code
	case isOdd(err):
		return "odd answer"
	case errors.As(err, &broken):
		return "connection: " + causeOf(broken)
	case errors.As(err, &answered):
		return answered.ErrorCode
	}
	return "other"
}

// causeOf returns the kind of a connection error, without what differs each time.
func causeOf(err *client.ConnectionError) string {
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return "no answer in time"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "refused"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return "broken"
	case err.InDoubt:
		return "half an answer"
	}
	return "other"
}

func (c *caller) lives() []int {
	var all []int
	for _, d := range c.daemons {
		all = append(all, d.lives())
	}
	return all
}

// answered returns the daemon that was asked last, and its life when the call began. If its life
// was another one at the end, what is claimed of the earlier life holds as well.
func (c *caller) answered(before []int) (name string, life int) {
	url := c.asker.URL()
	for i, d := range c.daemons {
		if strings.HasSuffix(url, d.front.Addr) {
			return d.name, before[i]
		}
	}
	return "", -1 // not known: nothing is claimed of it
}
