package report

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/cr-clawer/urifilter/daemon/internal/fetch/guard"
)

// Webhook is a URL that is called with a [Report] as JSON, by POST. A 2xx answer means success.
type Webhook struct {
	URL   string
	Token string // is sent as "Authorization: Bearer"; "": none
}

// saysAtMost is how much of a webhook's answer an error shows, in bytes.
const saysAtMost = 500

func (w *Webhook) call(ctx context.Context, r Report) error {
	body, err := json.Marshal(r)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.URL, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "uridownloader")
	if w.Token != "" {
		req.Header.Set("Authorization", "Bearer "+w.Token)
	}
	// A redirect would be followed by GET, without the report.
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, DialContext: guard.ForSettings().Dialer().DialContext, DisableKeepAlives: true, ForceAttemptHTTP2: true}
	caller := http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := caller.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	said, _ := io.ReadAll(io.LimitReader(resp.Body, saysAtMost))
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("answered %s: %s", resp.Status, strings.TrimSpace(string(said)))
	}
	return nil
}
