package client

import (
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// errorBodyLimit is how much of an error answer is read.
const errorBodyLimit = 64 << 10

// Error is an answer of the daemon that is not a success. Branch on ErrorCode, the
// stable word; Detail is for people.
type Error struct {
	Problem
	// RetryAfter is how long the daemon asks to wait; 0: it did not say.
	RetryAfter time.Duration
	// Method and URL name the request.
	Method, URL string

	looked bool // the call remembers nothing
	partly bool // the error came in the middle of a stream: items before it are remembered
}

func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s: %d", e.Method, e.URL, e.Status)
	if e.ErrorCode != "" {
		b.WriteString(" " + e.ErrorCode)
	}
	for _, text := range []string{e.Detail, e.Title, http.StatusText(e.Status)} {
		if text != "" {
			b.WriteString(": " + text)
			break
		}
	}
	if e.Index != nil {
		fmt.Fprintf(&b, " (item %d)", *e.Index)
	}
	return b.String()
}

// readError returns the *Error for res; the caller closes its body.
func readError(method string, u *url.URL, res *http.Response) error {
	e := &Error{Method: method, URL: u.Redacted(), RetryAfter: retryAfter(res.Header.Get("Retry-After"), time.Now())}
	body, err := io.ReadAll(io.LimitReader(res.Body, errorBodyLimit))
	kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	switch {
	case kind == "application/problem+json" && json.Unmarshal(body, &e.Problem) == nil:
	case kind == "text/plain" && err == nil:
		e.Problem = Problem{Detail: firstLine(body)}
	default: // not from a daemon: a proxy's page
		e.Problem = Problem{}
	}
	e.Status = res.StatusCode
	if to := res.Header.Get("Location"); to != "" && res.StatusCode < 400 {
		e.Detail = "redirected to " + to + ", which is not followed: name that address instead"
	}
	return e
}

func firstLine(body []byte) string {
	line, _, _ := strings.Cut(strings.TrimSpace(string(body)), "\n")
	const limit = 300
	if len(line) > limit {
		line = strings.ToValidUTF8(line[:limit], "") + "..."
	}
	if !utf8.ValidString(line) {
		return ""
	}
	return strings.TrimSpace(line)
}

// longestRetryAfter is the longest pause that an answer can ask for: sums with it do not overflow.
const longestRetryAfter = 365 * 24 * time.Hour

// retryAfter reads both forms of the header: seconds, or a date.
func retryAfter(value string, now time.Time) time.Duration {
	if seconds, err := strconv.ParseUint(value, 10, 64); err == nil {
		return time.Duration(min(seconds, uint64(longestRetryAfter/time.Second))) * time.Second
	}
	if at, err := http.ParseTime(value); err == nil && at.After(now) {
		return min(at.Sub(now), longestRetryAfter)
	}
	return 0
}
