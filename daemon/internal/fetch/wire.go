package fetch

import (
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/fetch/body"
)

// wire is a body as it is sent: bounded, and at least as fast as the least rate.
type wire struct {
	r     io.Reader
	h     *hop
	bytes int64
	err   error // once there was one

	began time.Time // start of the window for which the rate is checked
	had   int64     // bytes at the start of the window
}

func (h *hop) wire(answer *http.Response) *wire {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.arm(TimeoutRead, h.w.r.Read)
	return &wire{r: answer.Body, h: h, began: h.w.f.o.Now()}
}

func (w *wire) Read(p []byte) (int, error) {
	if w.err != nil {
		return 0, w.err
	}
	n, err := w.r.Read(p)
	w.h.timer.Reset(w.h.w.r.Read)
	if w.bytes += int64(n); err == nil {
		err = w.check()
	}
	w.err = err
	return n, err
}

func (w *wire) check() error {
	r := &w.h.w.r
	if w.bytes > r.BodyLimit {
		return fmt.Errorf("%w of %d bytes", body.ErrTooLarge, r.BodyLimit)
	}
	now := w.h.w.f.o.Now()
	passed := now.Sub(w.began)
	if passed < RateWindow {
		return nil
	}
	if got := w.bytes - w.had; float64(got) < passed.Seconds()*float64(r.LeastRate) {
		return &stop{TooSlow, fmt.Sprintf("%d bytes in %s, want %d a second at least", got, passed.Round(time.Second), r.LeastRate)}
	}
	w.began, w.had = now, w.bytes
	return nil
}
