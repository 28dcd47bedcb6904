package download

import (
	"errors"
	"fmt"
	"hash/fnv"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/cr-clawer/urifilter/daemon/internal/fetch/uri"
)

// MaxURI is the longest URI of a task, in bytes.
const MaxURI = 8192

// TaskOf makes a task of a URI, or returns an error that says why it cannot. Blanks around the URI are removed.
func TaskOf(text string) (NewTask, error) {
	text = strings.TrimSpace(text)
	if len(text) > MaxURI {
		return NewTask{}, fmt.Errorf("has %d bytes: want %d at most", len(text), MaxURI)
	}
	if !utf8.ValidString(text) {
		// Filters and answers use Unicode: two such URIs could not be told apart there.
		return NewTask{}, fmt.Errorf("%q: is not UTF-8: percent-encode its bytes", shorten(text))
	}
	u, err := url.Parse(text)
	if errors.As(err, new(url.EscapeError)) { // a % that stands for itself, as in /100%, is one to browsers, and to the fetch
		if _, wrong := uri.Parse(text); wrong == nil {
			return NewTask{URI: text, Shard: ShardOf(HostOf(text))}, nil
		}
	}
	if err != nil {
		var wrong *url.Error
		if errors.As(err, &wrong) {
			err = errors.New(uri.Redact(wrong.Err.Error()))
		}
		return NewTask{}, fmt.Errorf("%q: %w", shorten(text), err)
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return NewTask{}, fmt.Errorf("%q: want http:// or https:// and a host", shorten(text))
	}
	return NewTask{URI: text, Shard: ShardOf(HostOf(text))}, nil
}

// HostOf is the host that a URI of http or https calls, with one spelling per host: a name in lower
// case and ASCII without the final dot, or an address. It is "" for any other URI.
func HostOf(text string) string {
	u, err := uri.Parse(text)
	if err != nil {
		return ""
	}
	return u.Name()
}

// ShardOf is the shard of a host, by FNV-1a of its name in lower case.
func ShardOf(host string) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(strings.ToLower(strings.TrimSuffix(host, "."))))
	return int(h.Sum32() % Shards)
}

// Queues is the number of queues that the hosts of a job hash to, so that hand-out and lease are fair
// between hosts. There are many more of them than of shards: few hosts share one.
const Queues = 1 << 16

// QueueOf is the queue of the URI of a task: that of its host. Runs of scripts call no host when they
// begin, and have a queue for each script.
func QueueOf(uri string) int {
	if of := (Task{URI: uri}).Script(); of != ScriptDownload {
		return queueOf(string(of) + ":") // no host has that name
	}
	return queueOf(HostOf(uri))
}

func queueOf(host string) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(host))
	return int(h.Sum32() % Queues)
}

func shorten(text string) string {
	if text = uri.Redact(text); len(text) > 100 {
		return text[:100] + "…"
	}
	return text
}
