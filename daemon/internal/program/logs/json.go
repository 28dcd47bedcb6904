package logs

import (
	"io"
	"log/slog"
	"time"
)

// NewJSONHandler writes JSON for programs. A duration is a number of milliseconds, under a
// key that ends in _ms: took=101ms becomes "took_ms":101.
func NewJSONHandler(w io.Writer, level slog.Level) slog.Handler {
	return slog.NewJSONHandler(w, &slog.HandlerOptions{
		Level: level,
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Value.Kind() == slog.KindDuration {
				return slog.Float64(a.Key+"_ms", float64(a.Value.Duration())/float64(time.Millisecond))
			}
			return a
		},
	})
}
