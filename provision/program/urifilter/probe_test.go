package urifilter

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/provision/program"
	"github.com/cr-clawer/urifilter/provision/step"
)

// answers is a daemon that accepts only filter requests.
type answers struct {
	t      *testing.T
	filter string
	say    func(item string) program.Answer
}

func (a answers) Host() string { return "web1" }

func (a answers) Call(_ context.Context, method, path, body string) (program.Answer, error) {
	var call struct {
		Filter string   `json:"filter_typeid"`
		Items  []string `json:"uri_list"`
	}
	if err := json.Unmarshal([]byte(body), &call); err != nil || method != http.MethodPost || path != "/api/v1/filter" || call.Filter != a.filter || len(call.Items) != 1 {
		a.t.Errorf("unexpected call: %s %s %s", method, path, body)
	}
	return a.say(call.Items[0]), nil
}

// TestWhatFilterIsProbed: a healthy daemon must not be taken for one that fails because none of its filters accepts a plain item.
func TestWhatFilterIsProbed(t *testing.T) {
	t.Parallel()
	for settings, want := range map[string]string{
		"":                             "",
		"{name: texts, kind: simhash}": "",
		"{name: times, kind: timing}":  "",
		"{name: times, kind: timing, expire: 1h}":                                              "times",
		"{name: texts, kind: simhash}, {name: times, kind: timing}, {name: jobs, kind: exact}": "jobs",
		"{name: jobs, kind: exact}, {name: more, kind: exact}, {name: uri}, {name: uri2}":      "uri",
	} {
		c, err := configs.Parse("test", []byte("filters: ["+settings+"]\n"))
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Validate(); err != nil {
			t.Error(err)
		}
		if got := probed(c); got != want {
			t.Errorf("%s: %q, want %q", settings, got, want)
		}
	}
}

func TestWhatADaemonIsAsked(t *testing.T) {
	t.Parallel()
	isNew := func(item string) program.Answer {
		return program.Answer{Status: 200, Body: `{"uri_list":["` + item + `"],"total":1}`}
	}
	seen := program.Answer{Status: 200, Body: `{"uri_list":[],"total":1}`}
	for name, c := range map[string]struct {
		say     func(calls int, item string) program.Answer
		want    string
		warning string
	}{
		"it remembers": {say: func(calls int, item string) program.Answer {
			if calls%2 == 1 {
				return isNew(item)
			}
			return seen
		}},
		"one item is taken for seen": {say: func(calls int, item string) program.Answer {
			if calls == 2 {
				return isNew(item)
			}
			return seen
		}},
		"it forgets":     {say: func(_ int, item string) program.Answer { return isNew(item) }, want: "the same item as new twice"},
		"all is seen":    {say: func(int, string) program.Answer { return seen }, want: "three random items as seen\nhint: "},
		"something else": {say: func(int, string) program.Answer { return program.Answer{Status: 200, Body: "hello"} }, want: "not an answer of urifilter: hello"},
		"it fails":       {say: func(int, string) program.Answer { return program.Answer{Status: 500, Body: "x\ny"} }, want: "POST /api/v1/filter: 500 Internal Server Error: x y"},
		"it has no token": {say: func(int, string) program.Answer {
			return program.Answer{Status: 401, Body: `{"error_code":"unauthorized","detail":"no token"}`}
		}, want: "401 unauthorized: no token"},
		"it is full": {say: func(int, string) program.Answer {
			return program.Answer{Status: 507, Body: `{"error_code":"filter_full","detail":"at capacity"}`}
		},
			warning: "filter uri refuses new items: POST /api/v1/filter: 507 filter_full: at capacity"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := Program().Parse("test", []byte("filters: [{id: 2, name: ip, kind: timing}, {id: 1, name: uri}]\n"))
			if err != nil {
				t.Fatal(err)
			}
			calls, warned := 0, ""
			ctx := step.WithVoice(t.Context(), func(text string, warning bool) {
				if warning {
					warned = text
				}
			})
			err = s.Ask(ctx, answers{t, "uri", func(item string) program.Answer {
				calls++
				return c.say(calls, item)
			}})
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) || warned != c.warning {
				t.Errorf("%v, warned %q; want %q, %q", err, warned, c.want, c.warning)
			}
		})
	}
}
