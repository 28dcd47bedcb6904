package load

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/cr-clawer/urifilter/daemon/internal/lab/load/lean"
)

// The histograms hold times from a microsecond to an hour, to three digits.
const (
	shortest = time.Microsecond
	longest  = time.Hour
	digits   = 3
)

func newHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(int64(shortest), int64(longest), digits)
}

// note adds a time to a histogram.
func note(h *hdrhistogram.Histogram, d time.Duration) {
	_ = h.RecordValue(int64(min(max(d, 0), longest))) // it is in the range
}

// recorder collects what became of batches.
type recorder struct {
	mu sync.Mutex // guards all of it

	due  *hdrhistogram.Histogram // from when the batch was due; in a closed loop that is when it was sent
	sent *hdrhistogram.Histogram // from when it was sent
	late *hdrhistogram.Histogram // of batches that the generator could have sent in time

	batches, items, duplicates, expected int64
	bytesOut, bytesIn                    int64
	last                                 time.Time // time of the last answer
	errors                               map[string]*ErrorCount

	allItems, allErrors int64 // with those of the warm-up
}

func newRecorder() *recorder {
	return &recorder{due: newHistogram(), sent: newHistogram(), late: newHistogram(), errors: map[string]*ErrorCount{}}
}

// outcome is what became of a batch.
type outcome struct {
	counts           bool // not of the warm-up
	due, sent, ended time.Time
	inTime           bool // its connection was free when it was due
	items            int
	duplicates       int64 // that the server found
	expected         int   // that were sent
	out, in          int64 // bytes
	err              error
}

func (r *recorder) add(o outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if o.err != nil {
		r.allErrors++
	} else {
		r.allItems += int64(o.items)
	}
	if !o.counts {
		return
	}
	r.bytesOut += o.out
	r.bytesIn += o.in
	if o.ended.After(r.last) {
		r.last = o.ended
	}
	if o.inTime {
		note(r.late, o.sent.Sub(o.due))
	}
	if o.err != nil {
		code := codeOf(o.err)
		if r.errors[code] == nil {
			r.errors[code] = &ErrorCount{Code: code, First: o.err.Error()}
		}
		r.errors[code].Batches++
		return
	}
	r.batches++
	r.items += int64(o.items)
	r.duplicates += o.duplicates
	r.expected += int64(max(0, o.expected))
	note(r.due, o.ended.Sub(o.due))
	note(r.sent, o.ended.Sub(o.sent))
}

// sorted are the errors, the most frequent first.
func (r *recorder) sorted() []ErrorCount {
	all := []ErrorCount{}
	for _, e := range r.errors {
		all = append(all, *e)
	}
	slices.SortFunc(all, func(a, b ErrorCount) int {
		return cmp.Or(cmp.Compare(b.Batches, a.Batches), cmp.Compare(a.Code, b.Code))
	})
	return all
}

// codeOf names a cause: the error_code of an answer, else what happened to the connection.
func codeOf(err error) string {
	var answer *refusal
	var timeout net.Error
	switch {
	case errors.As(err, &answer):
		return answer.code
	case errors.Is(err, errOddAnswer), errors.Is(err, lean.ErrNotHTTP):
		return "odd_answer"
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return "timeout"
	case errors.As(err, new(*net.DNSError)):
		return "unknown_host"
	case errors.As(err, new(tls.RecordHeaderError)),
		errors.As(err, new(*tls.CertificateVerificationError)), errors.As(err, new(x509.UnknownAuthorityError)):
		return "tls"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection_refused"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.ErrClosedPipe):
		return "connection_lost"
	}
	return "connection_failed"
}

// corrected returns the histogram of a closed loop with the batches that the loop left out: while
// a connection waits for an answer longer than its usual pace, it does not send batches that would
// have waited, too.
func corrected(h *hdrhistogram.Histogram, pace int64) *hdrhistogram.Histogram {
	full := newHistogram()
	for _, bar := range h.Distribution() {
		for waited := bar.To; bar.Count > 0 && waited > 0 && (waited == bar.To || waited >= pace); waited -= pace {
			_ = full.RecordValues(waited, bar.Count) // in the range, which is the same as that of h
			if pace <= 0 {
				break
			}
		}
	}
	return full
}
