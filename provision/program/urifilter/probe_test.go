package urifilter

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/cr-clawer/urifilter/provision/program"
)

// daemon is one that answers as a test wants, and remembers what it was called for.
type daemon struct {
	make  program.Answer // to the call that makes a filter
	say   func(item string) program.Answer
	calls []string // method, path and filter of each
}

func (*daemon) Host() string { return "web1" }

func (d *daemon) Call(_ context.Context, method, path, body string) (program.Answer, error) {
	if method == http.MethodPut {
		d.calls = append(d.calls, method+" "+path+" "+body)
		return d.make, nil
	}
	var call struct {
		Filter string   `json:"filter_typeid"`
		Items  []string `json:"uri_list"`
	}
	if err := json.Unmarshal([]byte(body), &call); err != nil || len(call.Items) != 1 {
		return program.Answer{}, fmt.Errorf("unexpected call: %s %s %s", method, path, body)
	}
	d.calls = append(d.calls, method+" "+path+" "+call.Filter)
	return d.say(call.Items[0]), nil
}

// A check leaves nothing in the filters of users: it has one of its own, in which items expire, and
// where it cannot have one it only checks.
func TestWhatADaemonIsAsked(t *testing.T) {
	t.Parallel()
	isNew := func(item string) program.Answer {
		return program.Answer{Status: 200, Body: `{"uri_list":["` + item + `"],"total":1}`}
	}
	seen := program.Answer{Status: 200, Body: `{"uri_list":[],"total":1}`}
	const made, asked, checked = `PUT /api/v1/filters/toolkit-probe {"kind":"timing","expire":60}`, "POST /api/v1/filter toolkit-probe", "POST /api/v1/check uri"
	refused := func(status int) program.Answer { return program.Answer{Status: status, Body: "no"} }
	for name, c := range map[string]struct {
		make  program.Answer
		say   func(calls int, item string) program.Answer
		want  string
		calls []string
	}{
		"it remembers": {say: func(calls int, item string) program.Answer {
			if calls == 1 {
				return isNew(item)
			}
			return seen
		}, calls: []string{made, asked, asked}},
		"one item is taken for seen": {say: func(calls int, item string) program.Answer {
			if calls == 2 {
				return isNew(item)
			}
			return seen
		}, calls: []string{made, asked, asked, asked}},
		"it forgets":     {say: func(_ int, item string) program.Answer { return isNew(item) }, want: "the same item as new twice"},
		"all is seen":    {say: func(int, string) program.Answer { return seen }, want: "three random items as seen\nhint: "},
		"something else": {say: func(int, string) program.Answer { return program.Answer{Status: 200, Body: "hello"} }, want: "not an answer of urifilter: hello"},
		"it fails":       {make: program.Answer{Status: 500, Body: "x\ny"}, want: "PUT /api/v1/filters/toolkit-probe: 500 Internal Server Error: x y", calls: []string{made}},
		"it fails later": {say: func(int, string) program.Answer { return program.Answer{Status: 500, Body: "x\ny"} }, want: "POST /api/v1/filter: 500 Internal Server Error: x y"},
		"it has no token": {
			make: program.Answer{Status: 401, Body: `{"error_code":"unauthorized","detail":"no token"}`},
			want: "401 unauthorized: no token", calls: []string{made},
		},
		"no room for a filter": {make: refused(507), say: func(int, string) program.Answer { return program.Answer{Status: 200, Body: `{"new":[true]}`} }, calls: []string{made, checked}},
		"the name is taken": {make: refused(409), say: func(calls int, _ string) program.Answer {
			return program.Answer{Status: 200, Body: fmt.Sprintf(`{"new":[%v]}`, calls == 3)}
		}, calls: []string{made, checked, checked, checked}},
		"a full filter": {make: refused(403), say: func(int, string) program.Answer { return program.Answer{Status: 200, Body: `{"new":[false]}`} }, want: "three random items as seen"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := Program().Parse("test", []byte("filters: [{id: 2, name: texts, kind: simhash}, {id: 1, name: uri}]\n"))
			if err != nil {
				t.Fatal(err)
			}
			d := &daemon{make: c.make}
			if d.make.Status == 0 {
				d.make = program.Answer{Status: 201, Body: "{}"}
			}
			calls := 0
			d.say = func(item string) program.Answer {
				calls++
				return c.say(calls, item)
			}
			err = s.Ask(t.Context(), d)
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%v; want %q", err, c.want)
			}
			if c.calls != nil && !slices.Equal(d.calls, c.calls) {
				t.Errorf("calls %q, want %q", d.calls, c.calls)
			}
		})
	}
	// A daemon without a filter of plain items is asked in its own way too.
	s, err := Program().Parse("test", []byte("filters: [{name: texts, kind: simhash}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Ask(t.Context(), &daemon{make: refused(422)}); err != nil {
		t.Error(err)
	}
}

func TestFilesReadAtStart(t *testing.T) {
	t.Parallel()
	s, err := Program().Parse("test", []byte("redis: {password_file: /r}\nmysql: {addr: \"127.0.0.1:3306\", password_file: /m}\n"))
	if err != nil || !slices.Equal(s.AtStart, []string{"/r", "/m"}) {
		t.Errorf("%q, %v", s.AtStart, err)
	}
}
