// Package report tells people, by mail or by a webhook, that all tasks of a job have ended. A
// report is sent at least once: it is marked in the store after it was sent.
package report

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/wneessen/go-mail"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
	"github.com/cr-clawer/urifilter/daemon/internal/fetch/guard"
	"github.com/cr-clawer/urifilter/daemon/internal/fetch/uri"
)

const (
	// maxReasons is how many reasons a report names, those of the most tasks first.
	maxReasons = 10
	// maxLooked is how many failed tasks are read to find them.
	maxLooked = 10_000
)

// Report is the report on a job. It is the body of the webhook call.
type Report struct {
	Event   string    `json:"event"` // "job_ended": every task has; "job_failed": and none has a result
	Job     string    `json:"job"`
	Version int       `json:"version"`
	Tasks   Tasks     `json:"tasks"`
	Reasons []Reason  `json:"reasons"` // why tasks have failed, of the first maxLooked
	Time    time.Time `json:"time"`
}

// Tasks counts all tasks of a job.
type Tasks struct {
	Done   int `json:"done"`
	Failed int `json:"failed"`
}

// Reason is why some tasks have failed.
type Reason struct {
	Reason  string `json:"reason"` // its first word, such as robots or timeout
	Tasks   int    `json:"tasks"`
	URI     string `json:"uri"`     // of one of these tasks
	Message string `json:"message"` // of that task
}

var errEnough = errors.New("enough tasks were looked at")

// reportOf makes a report, for which it reads failed tasks.
func reportOf(ctx context.Context, store Store, job download.Job, done, failed int) (Report, error) {
	now, err := store.Now(ctx)
	if err != nil {
		return Report{}, err
	}
	r := Report{Event: "job_ended", Job: job.Name, Version: job.Version, Tasks: Tasks{done, failed}, Reasons: []Reason{}, Time: now.UTC()}
	if done == 0 {
		r.Event = "job_failed"
	}
	looked := 0
	at := map[string]int{}
	err = store.ListTasks(ctx, download.Query{Job: job.ID, State: download.Failed}, func(t download.Task) error {
		if looked++; looked > maxLooked {
			return errEnough
		}
		word := download.ReasonWord(t.Reason)
		i, known := at[word]
		if !known {
			i = len(r.Reasons)
			at[word] = i
			r.Reasons = append(r.Reasons, Reason{Reason: word, URI: uri.Redact(t.URI), Message: uri.Redact(t.Reason)})
		}
		r.Reasons[i].Tasks++
		return nil
	})
	if err != nil && !errors.Is(err, errEnough) {
		return Report{}, err
	}
	slices.SortStableFunc(r.Reasons, func(a, b Reason) int { return cmp.Compare(b.Tasks, a.Tasks) })
	r.Reasons = r.Reasons[:min(len(r.Reasons), maxReasons)]
	return r, nil
}

// title is the report in one line.
func (r Report) title() string {
	what := "has ended"
	if r.Event == "job_failed" {
		what = "has failed"
	}
	return fmt.Sprintf("job %s %s: %d tasks done, %d failed", r.Job, what, r.Tasks.Done, r.Tasks.Failed)
}

// text is the report for people.
func (r Report) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "All tasks of job %s (version %d) have ended: %d are done, %d have failed.\n", r.Job, r.Version, r.Tasks.Done, r.Tasks.Failed)
	if len(r.Reasons) > 0 {
		who := "they"
		if r.Tasks.Failed > maxLooked {
			who = fmt.Sprintf("the first %d of them", maxLooked)
		}
		fmt.Fprintf(&b, "\nWhy %s have failed:\n", who)
		for _, reason := range r.Reasons {
			fmt.Fprintf(&b, "\n%d by %s, such as %.500s\n  %.1000s\n", reason.Tasks, reason.Reason, reason.URI, reason.Message)
		}
	}
	fmt.Fprintf(&b, "\nuridownloader tasks %s --state failed    lists them.\nuridownloader data %[1]s    lists what was downloaded.\n", r.Job)
	return b.String()
}

// Mail is the server that sends mails.
type Mail struct {
	Server   string // host:port
	From     string // an address
	User     string // "": the server needs no login
	Password string
	TLS      string         // starttls, tls (from the beginning) or none; "": starttls
	Roots    *x509.CertPool // trusted authorities; nil: the system's
}

// send sends a report to one address.
func (m *Mail) send(ctx context.Context, to string, r Report) (err error) {
	client, err := m.client()
	if err != nil {
		return err
	}
	msg := mail.NewMsg()
	if err := errors.Join(msg.From(m.From), msg.To(to)); err != nil {
		return err
	}
	msg.Subject("uridownloader: " + r.title())
	msg.SetDate()
	msg.SetMessageID()
	msg.SetBodyString(mail.TypeTextPlain, r.text())
	return client.DialAndSendWithContext(ctx, msg)
}

func (m *Mail) client() (*mail.Client, error) {
	host, port, err := net.SplitHostPort(m.Server)
	if err != nil {
		return nil, err
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		return nil, err
	}
	with := &tls.Config{ServerName: host, RootCAs: m.Roots, MinVersion: tls.VersionTLS12}
	dialer := guard.ForSettings().Dialer()
	options := []mail.Option{mail.WithPort(number), mail.WithTimeout(sendIn), mail.WithTLSConfig(with), mail.WithDialContextFunc(dialer.DialContext)}
	switch cmp.Or(m.TLS, "starttls") {
	case "starttls":
		options = append(options, mail.WithTLSPolicy(mail.TLSMandatory))
	case "tls":
		// Not by WithSSL: with a dialer of ours the library would take the connection for a plain one, and
		// send no password. This policy looks at the connection itself.
		options = append(options, mail.WithTLSPolicy(mail.TLSOpportunistic), mail.WithDialContextFunc((&tls.Dialer{NetDialer: dialer, Config: with}).DialContext))
	case "none":
		options = append(options, mail.WithTLSPolicy(mail.NoTLS))
	}
	if m.User != "" {
		options = append(options, mail.WithSMTPAuth(mail.SMTPAuthAutoDiscover), mail.WithUsername(m.User), mail.WithPassword(m.Password))
	}
	return mail.NewClient(host, options...)
}

// Webhook is a URL that is called with a [Report] as JSON, by POST. A 2xx answer means success.
type Webhook struct {
	URL   string
	Token string // is sent as "Authorization: Bearer"; "": none
}

// maxSaid is how much of a webhook's answer an error shows, in bytes.
const maxSaid = 500

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
	said, _ := io.ReadAll(io.LimitReader(resp.Body, maxSaid))
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("answered %s: %s", resp.Status, strings.TrimSpace(string(said)))
	}
	return nil
}
