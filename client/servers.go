package client

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"
)

// restTime is how long a server that failed is skipped while another may answer.
const restTime = time.Second

// servers are the daemons that a client may call. All calls go to one of them until it
// fails: a daemon's memory of what is in the store is most useful to callers that stay.
type servers struct {
	all []*server

	mu      sync.Mutex // guards the following, and server.rests
	current int
}

type server struct {
	base  *url.URL // path without a trailing slash
	rests time.Time
}

func parseServers(list string) (*servers, error) {
	s := &servers{}
	for i, text := range strings.Split(list, ",") {
		text = strings.TrimSpace(text)
		base, err := parseBase(text)
		for _, other := range s.all {
			if err == nil && other.base.String() == base.String() {
				err = errors.New("appears twice")
			}
		}
		switch {
		case err == nil:
			s.all = append(s.all, &server{base: base})
		case strings.Contains(list, "@"): // a password is not shown, nor a part of one that has a comma
			if errors.As(err, new(*url.Error)) {
				err = errors.New("malformed: want http://USER:PASSWORD@HOST:PORT, with special characters percent-encoded")
			}
			return nil, fmt.Errorf("server address %d: %w", i+1, err)
		default:
			if fault := (*url.Error)(nil); errors.As(err, &fault) {
				err = fault.Err
			}
			return nil, fmt.Errorf("server address %q: %w", text, err)
		}
	}
	return s, nil
}

func parseBase(text string) (*url.URL, error) {
	full := text
	if !strings.Contains(text, "://") {
		full = "http://" + text
	}
	u, err := url.Parse(full)
	if err != nil {
		return nil, err
	}
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("scheme %q: want http or https", u.Scheme)
	case u.Hostname() == "":
		return nil, errors.New("no host: want http://HOST:PORT")
	case !isPort(u.Port()):
		return nil, fmt.Errorf("port %s: want 1 to 65535", u.Port())
	case u.RawQuery != "" || u.Fragment != "":
		return nil, errors.New("want no query and no fragment")
	}
	u.Path, u.RawPath = strings.TrimRight(u.Path, "/"), ""
	return u, nil
}

// isPort reports whether a server can listen on the port text; "" is the scheme's port.
func isPort(text string) bool {
	port, err := strconv.ParseUint(text, 10, 16)
	return text == "" || err == nil && port > 0
}

// now returns the server that is currently called.
func (s *servers) now() *server {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all[s.current]
}

// failed lets srv rest, and makes the next server that is not resting the current one; if
// all are resting, the one that has rested longest.
func (s *servers) failed(srv *server, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	srv.rests = at.Add(restTime)
	if s.all[s.current] != srv {
		return // another call has moved on already
	}
	best := s.current
	for i := 1; i <= len(s.all); i++ {
		next := (s.current + i) % len(s.all)
		if s.all[next].rests.Before(at) {
			best = next
			break
		}
		if s.all[next].rests.Before(s.all[best].rests) {
			best = next
		}
	}
	s.current = best
}
