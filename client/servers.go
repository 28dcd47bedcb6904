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
	for _, text := range strings.Split(list, ",") {
		base, err := parseBase(strings.TrimSpace(text))
		if err != nil {
			return nil, err
		}
		for _, other := range s.all {
			if other.base.String() == base.String() {
				return nil, fmt.Errorf("server address %q: appears twice", text)
			}
		}
		s.all = append(s.all, &server{base: base})
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
		var ue *url.Error
		if errors.As(err, &ue) {
			err = ue.Err
		}
		return nil, fmt.Errorf("server address %q: %w", text, err)
	}
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("server address %q: scheme %q: want http or https", text, u.Scheme)
	case u.Hostname() == "":
		return nil, fmt.Errorf("server address %q: no host: want http://HOST:PORT", text)
	case !isPort(u.Port()):
		return nil, fmt.Errorf("server address %q: port %s: want 1 to 65535", text, u.Port())
	case u.RawQuery != "" || u.Fragment != "":
		return nil, fmt.Errorf("server address %q: want no query and no fragment", text)
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
