package filter

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/cr-clawer/urifilter/client/clienttest"
	"github.com/cr-clawer/urifilter/daemon/internal/program/command"
)

// The command passes on the daemon's promise about these answers: none of them remembers.
func TestCertainAnswersLeaveNoDoubt(t *testing.T) {
	for code, status := range map[string]int{
		"not_ready": 503, "overloaded": 503, "filter_restoring": 503, "store_unavailable": 503,
		"insufficient_storage": 507, "filter_full": 507, "rate_limited": 429,
	} {
		s := clienttest.NewServer(t)
		failAt(s, 2, func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			clienttest.Problem(w, status, code, "so it is", nil)
		})
		in := strings.Repeat("a\n", batchLines) + "b\n"
		got, _, errOut := cli(t, s, in, "filter", "--patience", "0")
		if got != 1 || !strings.Contains(errOut, "nothing from line 10001 on is remembered") || strings.Contains(errOut, "may be") {
			t.Errorf("%s: got %d, %q", code, got, errOut)
		}
	}
}

func TestInterruptEndsTheWaiting(t *testing.T) {
	s := clienttest.NewServer(t)
	t.Setenv("URIFILTER_URL", s.URL)
	s.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		io.Copy(io.Discard, r.Body)
		clienttest.Problem(w, 503, "not_ready", "so it is", nil)
		return true
	})
	ctx, interrupt := context.WithCancelCause(t.Context())
	var errOut bytes.Buffer
	notice := writerFunc(func(b []byte) (int, error) {
		interrupt(command.Signaled{Signal: syscall.SIGINT})
		return errOut.Write(b)
	})
	if code := run(ctx, []string{"filter", "--patience", "10m"}, strings.NewReader("a\n"), io.Discard, notice); code != 130 ||
		!strings.Contains(errOut.String(), "\nurifilter: stopped by a signal: interrupt; until then: ") || strings.Contains(errOut.String(), "may be remembered") {
		t.Errorf("got %d, %q", code, &errOut)
	}
}

// An invalid address is not waited for.
func TestPatienceIsForDaemonsThatCanBeThere(t *testing.T) {
	s := clienttest.NewServer(t)
	t.Setenv("URIFILTER_URL", strings.Replace(s.URL, "http://", "https://", 1))
	var errOut bytes.Buffer
	if code := run(t.Context(), []string{"filter", "--patience", "10m"}, strings.NewReader("a\n"), io.Discard, &errOut); code != 1 || !strings.Contains(errOut.String(), "hint: the daemon answers without TLS") {
		t.Errorf("got %d, %q", code, &errOut)
	}
	if _, again := (&transfer{}).worthRepeating(errors.New("another")); again {
		t.Error("any error is repeated")
	}
}

// Nor is a token that the daemon does not know, after so many that it answers 429; a proxy that answers so is.
func TestPatienceIsNotForWrongTokens(t *testing.T) {
	for code, want := range map[string]int{"too_many_refusals": 1, "rate_limited": 0} {
		s := clienttest.NewServer(t)
		failAt(s, 1, func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			clienttest.Problem(w, http.StatusTooManyRequests, code, "so it is", nil)
		})
		if got, _, errOut := cli(t, s, "a\n", "filter"); got != want {
			t.Errorf("%s: got %d after %d calls, want %d; %q", code, got, len(s.Requests()), want, errOut)
		}
	}
}

// A proxy may ask for a pause of any length.
func TestPatienceIsShorterThanALongRetryAfter(t *testing.T) {
	s := clienttest.NewServer(t)
	failAt(s, 1, func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.Header().Set("Retry-After", "Fri, 31 Dec 9999 23:59:59 GMT")
		clienttest.Problem(w, http.StatusTooManyRequests, "", "so it is", nil)
	})
	if got, _, errOut := cli(t, s, "a\n", "filter"); got != 1 || !strings.Contains(errOut, "429") {
		t.Errorf("got %d, %q", got, errOut)
	}
}
