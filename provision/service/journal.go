package service

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/cr-clawer/urifilter/provision/host"
)

// tail is how many lines of the journal an error shows.
const tail = 50

// Journal are the last lines of the journal of the daemon and its port; since is a time as journalctl takes
// it, "" for any.
func Journal(ctx context.Context, h host.Host, lines int, since string) (string, error) {
	script := fmt.Sprintf("journalctl --no-pager --quiet --output=short-iso --no-hostname -u %s -u %s -n %d", Unit, Socket, lines)
	if since != "" {
		script += " --since=" + host.Quote(since)
	}
	out, err := h.Run(ctx, host.Command{Root: true, Script: script})
	if err != nil {
		return "", fmt.Errorf("read the journal: %w", err)
	}
	return strings.TrimRight(out.Stdout, "\n"), nil
}

// withJournal adds to an error what the daemon said lately.
func withJournal(ctx context.Context, h host.Host, err error, age time.Duration) error {
	text, failed := Journal(ctx, h, tail, fmt.Sprintf("-%ds", int(age.Seconds())+1))
	if failed != nil {
		text = failed.Error()
	}
	if text == "" {
		text = "nothing"
	}
	what, hint, has := strings.Cut(err.Error(), "\nhint: ")
	message := fmt.Sprintf("%s\njournalctl -u urifilter says:\n  %s", what, strings.ReplaceAll(text, "\n", "\n  "))
	if !has {
		hint = "go tool mage urifilter:logs -hosts=" + h.Name() + " shows more; run the target again once the cause is mended"
	}
	message += "\nhint: " + hint
	return &journalError{message, err}
}

type journalError struct {
	message string
	cause   error
}

func (e *journalError) Error() string { return e.message }

// Unwrap gives the cause.
func (e *journalError) Unwrap() error { return e.cause }
