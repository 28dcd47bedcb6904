package logs

import (
	"log/slog"
	"os"

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
