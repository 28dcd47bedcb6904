package download

import (
	"errors"
	"fmt"
	"hash/fnv"
	"net/url"
	"strings"
	"unicode/utf8"
)

// MaxURI is the longest URI of a task, in bytes.
const MaxURI = 8192

// TaskOf makes a task of a URI: the error says why it can be none. Blanks around it are left out.
func TaskOf(uri string) (NewTask, error) {
	uri = strings.TrimSpace(uri)
	if len(uri) > MaxURI {
		return NewTask{}, fmt.Errorf("has %d bytes: want %d at most", len(uri), MaxURI)
	}
	if !utf8.ValidString(uri) {
		// Filters and answers are in Unicode: two such URIs could not be told apart there.
		return NewTask{}, fmt.Errorf("%q: is not UTF-8: percent-encode its bytes", shorten(uri))
	}
	u, err := url.Parse(uri)
	if err != nil {
		var wrong *url.Error
		if errors.As(err, &wrong) {
			err = wrong.Err
		}
		return NewTask{}, fmt.Errorf("%q: %w", shorten(uri), err)
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return NewTask{}, fmt.Errorf("%q: want http:// or https:// and a host", shorten(uri))
	}
	return NewTask{URI: uri, Shard: ShardOf(u.Hostname())}, nil
}

// ShardOf is the shard of a host, by FNV-1a of its name in lower case.
func ShardOf(host string) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(strings.ToLower(strings.TrimSuffix(host, "."))))
	return int(h.Sum32() % Shards)
}

func shorten(uri string) string {
	if len(uri) > 100 {
		return uri[:100] + "…"
	}
	return uri
}
