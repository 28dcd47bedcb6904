package service

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/remote"
)

// patience is how long one request may take.
const patience = 5 * time.Second

// tunnel is a connection that can open others from the host.
type tunnel interface {
	DialContext(ctx context.Context, network, address string) (net.Conn, error)
}

// daemon is the daemon of a host as its own machine sees it.
type daemon struct {
	base   string // http://127.0.0.1:8000
	client *http.Client
	token  string
	filter string // the one to probe
}

// dial makes a way to the daemon through the connection to the host.
func dial(h host.Host, cfg configs.Config, token string) (*daemon, error) {
	through, ok := host.As[tunnel](h)
	if !ok {
		return nil, errNoTunnel
	}
	transport := &http.Transport{
		DialContext:       through.DialContext,
		DisableKeepAlives: true,
		// The tunnel ends on the host itself, which SSH has proved to be the right one; its
		// certificate is made out for the name by which callers know it.
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
	}
	return &daemon{
		base: cfg.URL(), token: token, filter: probed(cfg),
		client: &http.Client{Transport: transport, Timeout: patience},
	}, nil
}

var errNoTunnel = errors.New("the connection opens no tunnels")

// forbidden tells whether the host's sshd does not open tunnels.
func forbidden(err error) bool {
	return errors.Is(err, errNoTunnel) || errors.Is(err, remote.ErrForbidden)
}

// probed is the filter that a probe asks: the first one of fixed size, for one more item in
// it is nothing.
func probed(cfg configs.Config) string {
	specs := cfg.Specs()
	for _, s := range specs {
		if kind, _ := configs.KindOf(s.Kind); kind.Fixed {
			return s.Name
		}
	}
	if len(specs) > 0 {
		return specs[0].Name
	}
	return ""
}

// answer is what a call came back with.
type answer struct {
	status int
	body   string
}

func (d *daemon) call(ctx context.Context, method, path, body string) (answer, error) {
	req, err := http.NewRequestWithContext(ctx, method, d.base+path, strings.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if d.token != "" {
		req.Header.Set("Authorization", "Bearer "+d.token)
	}
	res, err := d.client.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	return answer{res.StatusCode, string(text)}, err
}

// asks is one filter request: whether the item is new.
func (d *daemon) asks(ctx context.Context, item string) (isNew bool, err error) {
	body, err := json.Marshal(map[string]any{"filter_typeid": d.filter, "uri_list": []string{item}})
	if err != nil {
		return false, err
	}
	a, err := d.call(ctx, http.MethodPost, "/api/v1/filter", string(body))
	if err != nil {
		return false, err
	}
	if a.status != http.StatusOK {
		return false, problem("POST /api/v1/filter", a)
	}
	var result struct {
		List  []string `json:"uri_list"`
		Total int      `json:"total"`
	}
	if err := json.Unmarshal([]byte(a.body), &result); err != nil || result.Total != 1 || len(result.List) > 1 {
		return false, fmt.Errorf("POST /api/v1/filter: not an answer of urifilter: %s", shorten(a.body))
	}
	return len(result.List) == 1 && result.List[0] == item, nil
}

// problemError is an answer other than 200.
type problemError struct {
	status int
	code   string
	text   string
}

func (e *problemError) Error() string { return e.text }

func problem(call string, a answer) error {
	var p struct {
		Title  string `json:"title"`
		Detail string `json:"detail"`
		Code   string `json:"error_code"`
	}
	e := &problemError{status: a.status}
	if json.Unmarshal([]byte(a.body), &p) == nil && p.Code != "" {
		e.code = p.Code
		e.text = fmt.Sprintf("%s: %d %s: %s", call, a.status, p.Code, p.Detail)
	} else {
		e.text = fmt.Sprintf("%s: %d %s: %s", call, a.status, http.StatusText(a.status), shorten(a.body))
	}
	return e
}

func shorten(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > 200 {
		text = text[:200] + "..."
	}
	return text
}

// item is one that nobody has asked for.
func newItem(h host.Host) string { return "urifilter-toolkit-probe/" + h.Name() + "/" + rand.Text() }

// probe asks for an item that is new, and again, when it is not any more. ask does one
// request. A filter takes some new items for seen; not three of them.
func probe(ctx context.Context, h host.Host, ask func(ctx context.Context, item string) (bool, error)) error {
	for range 3 {
		item := newItem(h)
		isNew, err := ask(ctx, item)
		if err != nil {
			return err
		}
		if !isNew {
			continue
		}
		if again, err := ask(ctx, item); err != nil {
			return err
		} else if again {
			return errors.New("the filter reported the same item as new twice")
		}
		return nil
	}
	return errors.New("the filter reports three random items as seen\nhint: it may be full: urifilter filters")
}

// askOnHost does a filter request by the release's own command line, on the host.
func askOnHost(h host.Host, program string, cfg configs.Config, token string) func(context.Context, string) (bool, error) {
	return func(ctx context.Context, item string) (bool, error) {
		script := fmt.Sprintf("read -r URIFILTER_TOKEN; export URIFILTER_TOKEN\nexec %s filter -s %s --type %s --timeout %s -",
			host.Quote(program), host.Quote(cfg.URL()), host.Quote(probed(cfg)), patience)
		out, err := h.Run(ctx, host.Command{Script: script, Stdin: bytes.NewReader([]byte(token + "\n" + item + "\n"))})
		if err != nil {
			return false, err
		}
		return strings.TrimSpace(out.Stdout) == item, nil
	}
}
