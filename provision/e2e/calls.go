package e2e

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"
)

// Crawler calls the daemon of one host over the network, as crawlers do.
type Crawler struct {
	URL   string // http://10.88.1.11:8000
	Token string
	Type  string // the filter; "": uri
}

// Crawler returns one for a host whose daemon listens on a port of all addresses.
func (l *Laptop) Crawler(host string, port int, token string) *Crawler {
	return &Crawler{URL: fmt.Sprintf("http://%s:%d", l.Hosts[host].Address, port), Token: token}
}

// Filter asks which items are new; the daemon remembers them.
func (c *Crawler) Filter(t *testing.T, items ...string) []string {
	t.Helper()
	fresh, err := c.Ask(items...)
	if err != nil {
		t.Fatal(err)
	}
	return fresh
}

// Ask is Filter, but returns the error.
func (c *Crawler) Ask(items ...string) ([]string, error) {
	kind := cmp.Or(c.Type, "uri")
	body, err := json.Marshal(map[string]any{"filter_typeid": kind, "uri_list": items})
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequest(http.MethodPost, c.URL+"/api/v1/filter", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	if c.Token != "" {
		req.Header.Set("Authorization", "Bearer "+c.Token)
	}
	client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
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
