// Package logs writes a program's log in the form that suits its reader: systemd's journal has
// its own line format.
package logs

import (
	"context"
	"io"
	"log/slog"
)

// journalHandler writes text for systemd's journal. Each line begins with a priority as in
// sd-daemon(3), by which `journalctl -p warning` selects and colours lines. It has no time,
// because the journal records that.
type journalHandler struct {
	byPriority map[byte]slog.Handler
	level      slog.Level
}

// NewJournalHandler makes a journalHandler.
func NewJournalHandler(w io.Writer, level slog.Level) slog.Handler {
	h := journalHandler{map[byte]slog.Handler{}, level}
	for _, p := range []byte("3467") {
		h.byPriority[p] = slog.NewTextHandler(&priorityWriter{w, p}, &slog.HandlerOptions{
			Level: level,
			ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
				_, level := a.Value.Any().(slog.Level)
				if len(groups) == 0 && (level || a.Key == slog.TimeKey && a.Value.Kind() == slog.KindTime) {
					return slog.Attr{}
				}
				return a
			},
		})
	}
	return h
}

func priority(level slog.Level) byte {
	switch {
	case level >= slog.LevelError:
		return '3'
	case level >= slog.LevelWarn:
		return '4'
	case level >= slog.LevelInfo:
		return '6'
	}
	return '7'
}

func (h journalHandler) Enabled(_ context.Context, level slog.Level) bool { return level >= h.level }

func (h journalHandler) Handle(ctx context.Context, r slog.Record) error {
	return h.byPriority[priority(r.Level)].Handle(ctx, r)
}

func (h journalHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return h.with(func(to slog.Handler) slog.Handler { return to.WithAttrs(attrs) })
}

func (h journalHandler) WithGroup(name string) slog.Handler {
	return h.with(func(to slog.Handler) slog.Handler { return to.WithGroup(name) })
}

func (h journalHandler) with(change func(slog.Handler) slog.Handler) slog.Handler {
	changed := journalHandler{map[byte]slog.Handler{}, h.level}
	for p, to := range h.byPriority {
		changed.byPriority[p] = change(to)
	}
	return changed
}

// priorityWriter writes a priority before each line; a record is one line, and one Write.
type priorityWriter struct {
	to       io.Writer
	priority byte
}

func (w *priorityWriter) Write(p []byte) (int, error) {
	line := append([]byte{'<', w.priority, '>'}, p...)
	if _, err := w.to.Write(line); err != nil {
		return 0, err
	}
	return len(p), nil
}
