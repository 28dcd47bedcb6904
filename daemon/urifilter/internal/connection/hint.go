package connection

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/cr-clawer/urifilter/client"
	"github.com/cr-clawer/urifilter/daemon/internal/front/problem"
	"github.com/cr-clawer/urifilter/daemon/internal/program/command"
)

// Hint is the next step after an error: its own, the one for a call to the daemon, or "" if none is known.
func Hint(err error) string {
	var answer *client.Error
	var own interface{ Hint() string }
	switch {
	case errors.As(err, &answer):
		return hintOfAnswer(answer)
	case errors.As(err, &own):
		return own.Hint()
	case refused(err):
		return "is the daemon running? start it with `urifilter serve`, or name it with --server or URIFILTER_URL"
	case errors.As(err, new(*net.DNSError)):
		return "check the name of the daemon's host (--server or URIFILTER_URL)"
	case errors.Is(err, http.ErrSchemeMismatch):
		return "the daemon answers without TLS: write http:// in --server"
	case errors.As(err, new(*tls.CertificateVerificationError)):
		return "the variable SSL_CERT_FILE names a file of certificates to trust"
	}
	return ""
}

// Exit is the exit code after an error: for a daemon's answer, that of its error code.
func Exit(err error) int {
	if answer, ok := errors.AsType[*client.Error](err); ok {
		if entry, known := problem.ByCode()[answer.ErrorCode]; known {
			return entry.Exit
		}
	}
	return command.ExitFailure
}

func hintOfAnswer(e *client.Error) string {
	switch {
	case e.Status == http.StatusUnauthorized:
		return "give a token with --token-file or URIFILTER_TOKEN"
	case e.Status == http.StatusForbidden:
		return "use a token that has this scope (--token-file or URIFILTER_TOKEN)"
	case e.ErrorCode == problem.UnknownFilter && len(e.Known) > 0:
		return "known filters: " + strings.Join(e.Known, ", ") + "; `urifilter filters create NAME` makes another"
	case e.ErrorCode == problem.FilterConflict:
		return "`urifilter filters show NAME` shows how it was made"
	case e.ErrorCode == problem.StoreFailed:
		return "the daemon's log says what its disk did (journalctl -u urifilter)"
	case e.ErrorCode == "" && e.Status < 500, e.ErrorCode == problem.UnknownPath:
		return "is that the address of a urifilter daemon? (--server or URIFILTER_URL)"
	case e.RetryAfter > 0:
		return fmt.Sprintf("try again in %s", e.RetryAfter.Round(time.Second))
	}
	return ""
}

// windowsConnRefused is Windows' own number; syscall has invented a different one.
const windowsConnRefused = syscall.Errno(10061)

func refused(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED) || runtime.GOOS == "windows" && errors.Is(err, windowsConnRefused)
}
