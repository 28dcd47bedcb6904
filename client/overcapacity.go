package client

import (
	"log/slog"
	"net/http"
)

// headerOver says, with the present false-positive ratio, that a filter is past its
// capacity. A stream has it as a trailer.
const headerOver = "Urifilter-Over-Capacity"

// WithLogger has l told of what callers ought to know and no call returns: once for each
// filter, that it holds more items than it was made for, so that new items are called seen.
// Default: slog.Default(); slog.New(slog.DiscardHandler) for silence.
func WithLogger(l *slog.Logger) Option { return func(c *Client) { c.log = l } }

// noteOver looks at an answer of the filter typ.
func (c *Client) noteOver(typ string, headers ...http.Header) {
	for _, h := range headers {
		ratio := h.Get(headerOver)
		if ratio == "" {
			continue
		}
		if _, told := c.toldOver.LoadOrStore(typ, true); told {
			return
		}
		log := c.log
		if log == nil {
			log = slog.Default()
		}
		log.Warn("filter is past its capacity: new items are called seen", "filter", typ, "fpr_estimate", ratio,
			"hint", "make a larger filter and ask that")
		return
	}
}
