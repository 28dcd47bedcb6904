package e2e_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/provision/e2e"
)

// load is the constant load of crawlers on one daemon. Each has items of its own, and none
// repeats a call: what is lost stays lost, and is counted.
type load struct {
	name    string
	crawler *e2e.Crawler
	stop    context.CancelFunc
	ended   sync.WaitGroup

	mu      sync.Mutex
	asked   []string // each item that an answer called new
	calls   int
	lost    []string // calls without an answer, or with a wrong one
	longest time.Duration
	by      string // the kind of client that waited that long
}

// perCall is how many items a call of the load has. Between two calls a client waits, because
// the machine also has to deploy, and the filter must not fill up.
const (
	perCall = 10
	between = 50 * time.Millisecond
)

// someone makes one call, and returns the items that the answer calls new.
type someone func(items []string) (fresh []string, err error)

// startLoad starts clients of three kinds against a daemon: a raw connection that is used until
// the server says that it closes it, Go's own client, and Python's.
func startLoad(t *testing.T, name string, c *e2e.Crawler) *load {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	l := &load{name: name, crawler: c, stop: stop}
	t.Cleanup(func() { stop(); l.ended.Wait() })
	for i := range 4 {
		raw := &rawClient{address: strings.TrimPrefix(c.URL, "http://"), token: c.Token}
		l.run(ctx, "raw", fmt.Sprintf("%s-raw%d", name, i), raw.ask)
	}
	transport := &http.Transport{MaxIdleConnsPerHost: 4}
	for i := range 4 {
		l.run(ctx, "Go", fmt.Sprintf("%s-go%d", name, i), goClient(transport, c))
	}
	l.python(ctx, t, fmt.Sprintf("%s-python", name))
	return l
}

// run runs one client in a loop.
func (l *load) run(ctx context.Context, kind, prefix string, ask someone) {
	l.ended.Go(func() {
		for n := 0; ctx.Err() == nil; n++ {
			items := make([]string, perCall)
			for i := range items {
				items[i] = fmt.Sprintf("https://load.example/%s/%d/%d", prefix, n, i)
			}
			began := time.Now()
			fresh, err := ask(items)
			took := time.Since(began)
			if err == nil && !slices.Equal(fresh, items) {
				err = fmt.Errorf("new are %d of %d items that nobody had asked for", len(fresh), len(items))
			}
			l.count(kind, prefix, fresh, took, err)
			time.Sleep(between)
		}
	})
}

func (l *load) count(kind, who string, fresh []string, took time.Duration, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls++
	l.asked = append(l.asked, fresh...)
	if took > l.longest {
		l.longest, l.by = took, kind
	}
	if err != nil && len(l.lost) < 20 {
		l.lost = append(l.lost, fmt.Sprintf("%s at %s after %s: %v", who, time.Now().Format("15:04:05.000"), took.Round(time.Millisecond), err))
	}
}

// pause returns the longest time that a call has waited since pause was last called.
func (l *load) pause() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	text := fmt.Sprintf("%s: %d calls, the longest %s by %s", l.name, l.calls, l.longest.Round(time.Millisecond), l.by)
	l.longest, l.by = 0, ""
	return text
}

// more waits until n more calls have been answered, so the load is on.
func (l *load) more(t *testing.T, n int) {
	t.Helper()
	count := func() (int, []string) {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.calls, l.lost
	}
	first, _ := count()
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		now, lost := count()
		if now >= first+n {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s: %d calls in 2 min\n%s", l.name, now-first, strings.Join(lost, "\n"))
		}
	}
}

// done ends the load and checks the result: no call was lost, and every item that was asked for
// is known.
func (l *load) done(t *testing.T) {
	t.Helper()
	l.stop()
	l.ended.Wait()
	for _, lost := range l.lost {
		t.Errorf("%s: %s", l.name, lost)
	}
	seen := map[string]bool{}
	for _, item := range l.asked {
		if seen[item] {
			t.Errorf("%s: %s was new twice", l.name, item)
		}
		seen[item] = true
	}
	forgotten := 0
	for chunk := range slices.Chunk(l.asked, 5000) {
		forgotten += len(l.crawler.Filter(t, chunk...))
	}
	t.Logf("%s: %d calls, %d items, %d of them forgotten", l.name, l.calls, len(l.asked), forgotten)
	if forgotten > 0 || len(l.asked) < l.calls*perCall {
		t.Errorf("%s: of %d items in %d calls %d are new once more", l.name, len(l.asked), l.calls, forgotten)
	}
}

// silence is the time after which a stopping daemon no longer waits: it closes a connection that
// has been silent for two seconds, and carries out no request that crosses the close. A client
// that the machine kept from calling for that long repeats its call, and all of its items must be
// new.
const silence = 2 * time.Second

// rawClient keeps one connection, and opens another one only if the server has said in an
// answer that it closes it, or after a silence.
type rawClient struct {
	address, token string
	conn           net.Conn
	reader         *bufio.Reader
	called         time.Time // when it began its last call: no later than the answer to it, from which the daemon counts
}

func (c *rawClient) ask(items []string) ([]string, error) {
	used, last := c.conn != nil, c.called
	c.called = time.Now()
	fresh, err := c.once(items)
	if (errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.EPIPE)) && used && time.Since(last) > silence {
		return c.once(items)
	}
	return fresh, err
}

func (c *rawClient) once(items []string) ([]string, error) {
	if c.conn == nil {
		conn, err := net.DialTimeout("tcp", c.address, time.Minute)
		if err != nil {
			return nil, err
		}
		c.conn, c.reader = conn, bufio.NewReader(conn)
	}
	fresh, last, err := c.call(items)
	if err != nil || last {
		c.conn.Close()
		c.conn = nil
	}
	return fresh, err
}

func (c *rawClient) call(items []string) (fresh []string, last bool, err error) {
	body, err := json.Marshal(map[string]any{"filter_typeid": "uri", "uri_list": items})
	if err != nil {
		return nil, false, err
	}
	head := fmt.Sprintf("POST /api/v1/filter HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", c.address, c.token, len(body))
	if err := c.conn.SetDeadline(time.Now().Add(2 * time.Minute)); err != nil {
		return nil, false, err
	}
	if _, err := c.conn.Write(append([]byte(head), body...)); err != nil {
		return nil, false, err
	}
	res, err := http.ReadResponse(c.reader, nil)
	if err != nil {
		return nil, false, err
	}
	defer res.Body.Close()
	fresh, err = answered(res)
	return fresh, res.Close, err
}

// goClient is net/http as people use it. If it repeats a call by itself, that is its own
// affair: items that it has sent twice are not new the second time.
func goClient(transport *http.Transport, c *e2e.Crawler) someone {
	client := &http.Client{Transport: transport, Timeout: time.Minute}
	return func(items []string) ([]string, error) {
		body, err := json.Marshal(map[string]any{"filter_typeid": "uri", "uri_list": items})
		if err != nil {
			return nil, err
		}
		req, err := http.NewRequest(http.MethodPost, c.URL+"/api/v1/filter", bytes.NewReader(body))
		if err != nil {
			return nil, err
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Authorization", "Bearer "+c.Token)
		res, err := client.Do(req)
		if err != nil {
			return nil, err
		}
		defer res.Body.Close()
		return answered(res)
	}
}

func answered(res *http.Response) ([]string, error) {
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, err
	}
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", res.Status, text)
	}
	var answer struct {
		URIList []string `json:"uri_list"`
	}
	return answer.URIList, json.Unmarshal(text, &answer)
}
