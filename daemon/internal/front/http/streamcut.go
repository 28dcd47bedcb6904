package http

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"time"
	"unicode/utf16"

	"github.com/cr-clawer/urifilter/daemon/internal/front/http/spool"
	"github.com/cr-clawer/urifilter/daemon/internal/front/problem"
)

// cut ends an answer that cannot be completed. The answer so far is sent first: its items
// are remembered, and will not be reported as new again.
func (st *stream) cut(err error) {
	st.logCut(err)
	if st.sending != nil && st.settle() == nil {
		_ = st.c.rc.Flush()
		if st.endWithTrailer(err) {
			return
		}
		st.c.linger()
	}
	if errors.Is(err, spool.ErrClientGone) {
		st.c.hangUp(statusClientGone)
	}
	st.c.hangUp(statusCut)
}

// endWithTrailer ends the answer normally, with the problem as its trailer, if the client says that
// it reads trailers (TE: trailers). For others a cut is the only sign that they cannot miss.
func (st *stream) endWithTrailer(err error) bool {
	c := st.c
	if !slices.ContainsFunc(c.r.Header["Te"], func(te string) bool { return strings.Contains(te, "trailers") }) {
		return false
	}
	f := problem.Of(err)
	entry, ok := c.s.errors[f.Code]
	if !ok || f.Code == problem.IncompleteBody || c.r.Context().Err() != nil {
		return false
	}
	// Otherwise the system would discard the trailer when the connection is closed with a part
	// of the body unread. A client that sends more than that sees a cut.
	_ = c.rc.SetReadDeadline(time.Now().Add(min(lingerTime, c.s.limits.BodyTimeout)))
	_, _ = io.Copy(io.Discard, c.r.Body)
	c.code, c.status = entry.Code, statusCut
	c.w.Header().Set(headerError, asciiJSON(bytes.TrimSpace(problemOf(entry, f))))
	return true
}

// asciiJSON returns JSON with all non-ASCII characters escaped, for a header's value.
func asciiJSON(text []byte) string {
	var b strings.Builder
	for _, r := range string(text) {
		switch {
		case r < 0x80:
			b.WriteRune(r)
		case r >= 0x10000:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, "\\u%04x\\u%04x", high, low)
		default:
			fmt.Fprintf(&b, "\\u%04x", r)
		}
	}
	return b.String()
}

func (st *stream) logCut(err error) {
	level := slog.LevelWarn
	f := problem.Of(err)
	switch entry := st.c.s.errors[f.Code]; {
	case errors.Is(err, spool.ErrClientGone), f.Code == problem.IncompleteBody, errors.Is(err, context.Canceled):
		level = slog.LevelDebug
	case entry.Status == 0 || entry.Status >= 500:
		level = slog.LevelError
	}
	st.c.s.log.Log(st.c.r.Context(), level, "answer to a stream cut off", "filter", st.c.work.Filter.Name, "items", st.total, "err", err)
}
