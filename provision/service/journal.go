package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/systemd"
)

// tail is how many lines of the journal an error shows.
const tail = 50

// Journal returns the last lines of the journal of a program's daemon and its port; since is
// a time as journalctl accepts it, "" for any.
func Journal(ctx context.Context, h host.Host, p systemd.Program, lines int, since string) (string, error) {
	out, err := journal(ctx, h, p, fmt.Sprintf("-n %d", lines), since)
	return strings.TrimRight(out, "\n"), err
}

// Follow passes those lines to line, and then each new line as it is written, until ctx ends.
func Follow(ctx context.Context, h host.Host, p systemd.Program, lines int, since string, line func(string)) error {
	from := fmt.Sprintf("-n %d", lines)
	for {
		out, err := journal(ctx, h, p, from+" --show-cursor", since)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		for text := range strings.Lines(out) {
			text = strings.TrimRight(text, "\n")
			if cursor, is := strings.CutPrefix(text, "-- cursor: "); is {
				from, since = "--after-cursor="+host.Quote(cursor), ""
				continue
			}
			line(text)
		}
		if host.Sleep(ctx, followEvery) != nil {
			return nil
		}
	}
}

// followEvery is how often Follow reads the journal.
const followEvery = time.Second

func journal(ctx context.Context, h host.Host, p systemd.Program, which, since string) (string, error) {
	script := fmt.Sprintf("journalctl --no-pager --quiet --output=short-iso --no-hostname -u %s -u %s %s", p.Service(), p.Socket(), which)
	if since != "" {
		script += " --since=" + host.Quote(since)
	}
	out, err := h.Run(ctx, host.Command{Root: true, Script: script, Watch: true})
	if failed, is := errors.AsType[*host.CommandError](err); is && strings.Contains(failed.Output.Stderr, "Failed to parse timestamp") {
		return "", fmt.Errorf("since %q: journalctl knows no such time\nhint: a time such as \"10 min ago\", yesterday or \"2026-11-21 08:00\"", since)
	}
	if err != nil {
		return "", fmt.Errorf("read the journal: %w", err)
	}
	return out.Stdout, nil
}

// withJournal adds to an error what the daemon has logged lately.
func withJournal(ctx context.Context, h host.Host, p systemd.Program, err error, age time.Duration) error {
	text, failed := Journal(ctx, h, p, tail, fmt.Sprintf("-%ds", int(age.Seconds())+1))
	if failed != nil {
		text = failed.Error()
	}
	text = cmp.Or(text, "nothing")
	what, hint, has := strings.Cut(err.Error(), "\nhint: ")
	message := fmt.Sprintf("%s\njournalctl -u %s says:\n  %s", what, p.Name, strings.ReplaceAll(text, "\n", "\n  "))
	if !has {
		hint = "go tool mage " + p.Name + ":logs -hosts=" + h.Name() + " shows more; run the target again once the cause is fixed"
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
