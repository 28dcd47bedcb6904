package logs

import (
	"io"
	"log/slog"
	"os"
	"time"

	"golang.org/x/term"
)

// New makes the log of a program. The lowest level that is logged is debug, info, warn or error.
// The format is text, json or auto: text on a terminal and in systemd's journal, otherwise json.
func New(out *os.File, level, format string) *slog.Logger {
	var least slog.Level
	if err := least.UnmarshalText([]byte(level)); err != nil {
		least = slog.LevelInfo // the settings were checked
	}
	if format == "text" || format == "auto" && term.IsTerminal(int(out.Fd())) {
		return slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: least}))
	}
	if format == "auto" && ToJournal(out) {
		return slog.New(NewJournalHandler(out, least))
	}
	return slog.New(NewJSONHandler(out, least))
}

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
