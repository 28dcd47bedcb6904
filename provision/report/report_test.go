package report

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/cr-clawer/urifilter/provision/secret"
)

var update = flag.Bool("update", false, "rewrite testdata")

// golden compares got with a file in testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != strings.ReplaceAll(string(want), "\r\n", "\n") {
		t.Errorf("%s: got\n%s\nwant\n%s", name, got, want)
	}
}

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// deployment returns the beginning of a run, up to a host's upload, and its end.
func deployment() (begin, end []Event) {
	at := func(seconds float64, e Event) Event {
		e.Time = start.Add(time.Duration(seconds * float64(time.Second)))
		return e
	}
	begin = []Event{
		at(0, Event{Kind: RunBegan, Text: "deploy", Run: "r1", Hosts: []string{"web-1.example", "web-2.example", "db"}}),
		at(0, Event{Kind: StepBegan, Host: "web-1.example", Step: "connect"}),
		at(1, Event{Kind: StepEnded, Host: "web-1.example", Step: "connect", Status: OK, Seconds: 1}),
		at(1, Event{Kind: StepEnded, Host: "db", Step: "connect", Status: Unreachable, Error: "connection to db: no route\nhint: is it up?", Seconds: 1}),
		at(1, Event{Kind: PhaseBegan, Phase: "filter", Text: "canary", Hosts: []string{"web-1.example"}}),
		at(1, Event{Kind: StepEnded, Phase: "filter", Host: "web-1.example", Step: "user", Status: OK}),
		at(1, Event{Kind: StepEnded, Phase: "filter", Host: "web-1.example", Step: "folders", Status: OK}),
		at(1, Event{Kind: StepBegan, Phase: "filter", Host: "web-1.example", Step: "redis: package"}),
		at(2, Event{Kind: Said, Phase: "filter", Host: "web-1.example", Step: "redis: package", Text: "waiting for apt's lock"}),
		at(3, Event{Kind: Output, Phase: "filter", Host: "web-1.example", Command: "apt-get install -y redis-server", Text: "Reading...\rReading... Done\n\x1b[31mred\x1b[0m\x07\n"}),
		at(3, Event{Kind: StepEnded, Phase: "filter", Host: "web-1.example", Step: "redis: package", Status: Changed, Detail: "install redis-server", Diff: "--- a\n+++ a\n@@ -1 +1 @@\n-x\n+y\n", Seconds: 12.3}),
		at(3, Event{Kind: Warned, Phase: "filter", Host: "web-1.example", Step: "health", Text: "no time synchronisation"}),
		at(3, Event{Kind: StepBegan, Phase: "filter", Host: "web-1.example", Step: "release: upload the binary of today"}),
		at(4, Event{Kind: Progress, Phase: "filter", Host: "web-1.example", Text: "upload urifilter", Sent: 43, Size: 100}),
	}
	end = []Event{
		at(9, Event{Kind: StepEnded, Phase: "filter", Host: "web-1.example", Step: "release: upload the binary of today", Status: Failed, Error: "no space on /opt\nhint: make room", Seconds: 75}),
		at(9, Event{Kind: StepEnded, Phase: "filter", Host: "web-1.example", Step: "undo redis: package", Status: Undone, Detail: "as before"}),
		at(9, Event{Kind: HostDone, Phase: "filter", Host: "web-1.example"}),
		at(9, Event{Kind: StepEnded, Host: "web-2.example", Status: NotStarted}),
		at(9, Event{Kind: RunEnded, Summary: &Summary{Code: 1, Seconds: 90, Next: "go tool mage deploy -resume",
			Warnings: []Warning{{Text: "no time synchronisation", Hosts: []string{"web-1.example"}}},
			Hosts: []HostSummary{
				{Host: "web-1.example", Status: Failed, OK: 2, Changed: 1, Failed: 1, Seconds: 88.3, Step: "release: upload the binary of today", Error: "no space on /opt\nhint: make room"},
				{Host: "web-2.example", Status: NotStarted},
				{Host: "db", Status: Unreachable, Failed: 1, Seconds: 1, Step: "connect", Error: "connection to db: no route\nhint: is it up?"},
			}}}),
	}
	return begin, end
}

func emit(s Sink, events []Event) {
	for _, e := range events {
		s.Emit(e)
	}
}

func TestPlainLines(t *testing.T) {
	t.Parallel()
	for _, verbose := range []bool{false, true} {
		var out bytes.Buffer
		now := start
		term := NewTerminal(&out, TerminalOptions{Verbose: verbose, Now: func() time.Time { return now }})
		begin, end := deployment()
		emit(term, begin)
		now = start.Add(40 * time.Second)
		term.tick() // a step that takes long is reported
		term.tick() // only once
		emit(term, end)
		term.Close()
		if i := strings.IndexFunc(out.String(), func(r rune) bool { return unicode.IsControl(r) && r != '\n' }); i >= 0 {
			t.Errorf("a control character: %q", out.String()[i:])
		}
		golden(t, map[bool]string{false: "plain.txt", true: "verbose.txt"}[verbose], out.String())
	}
}

func TestLiveTerminal(t *testing.T) {
	t.Parallel()
	for _, columns := range []int{100, 42} {
		out := newScreen(t, columns)
		now := start.Add(7 * time.Second)
		term := NewTerminal(out, TerminalOptions{
			Live: true, Color: true, Size: func() (int, int) { return columns, 24 }, Now: func() time.Time { return now },
		})
		begin, end := deployment()
		emit(term, begin)
		term.tick()
		term.tick()
		shown := "=== in the middle\n" + snapshot(term, out)
		resume := term.Pause()
		shown += "=== paused\n" + snapshot(term, out)
		resume()
		emit(term, end)
		term.Close()
		golden(t, fmt.Sprintf("live-%d.txt", columns), shown+"=== at the end\n"+out.String())
	}
}

func snapshot(term *Terminal, out *screen) string {
	term.mu.Lock()
	defer term.mu.Unlock()
	return out.String()
}

// More busy hosts than lines: the rest is counted, and the screen does not scroll away.
func TestLiveTerminalWithManyHosts(t *testing.T) {
	t.Parallel()
	out := newScreen(t, 60)
	term := NewTerminal(out, TerminalOptions{Live: true, Size: func() (int, int) { return 60, 10 }, Now: func() time.Time { return start }})
	var hosts []string
	for i := range 40 {
		hosts = append(hosts, fmt.Sprintf("host-%02d", i))
	}
	term.Emit(Event{Kind: RunBegan, Text: "deploy", Hosts: hosts})
	for _, h := range hosts {
		term.Emit(Event{Kind: StepBegan, Host: h, Step: "connect", Time: start})
	}
	want := "deploy: 40 hosts\n"
	for _, h := range hosts[:4] {
		want += fmt.Sprintf("%s | %-28s | 0.0 s\n", h, "connect")
	}
	want += "… and 36 more\n"
	term.tick()
	if got := snapshot(term, out); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	term.Close()
	if got := out.String(); got != "deploy: 40 hosts\n" {
		t.Errorf("after close:\n%s", got)
	}
}

func TestJSONLines(t *testing.T) {
	t.Parallel()
	begin, end := deployment()
	for verbose, want := range map[bool]int{false: len(begin) + len(end) - 2, true: len(begin) + len(end)} {
		var out bytes.Buffer
		j := NewJSON(&out, verbose)
		emit(j, begin)
		emit(j, end)
		lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
		if len(lines) != want {
			t.Errorf("verbose %v: %d lines, want %d", verbose, len(lines), want)
		}
		var last Event
		for _, line := range lines {
			last = Event{}
			if err := json.Unmarshal([]byte(line), &last); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			if last.Kind == "" || last.Time.IsZero() {
				t.Errorf("without kind or time: %s", line)
			}
		}
		if last.Kind != RunEnded || len(last.Summary.Hosts) != 3 || last.Summary.Hosts[2].Status != Unreachable {
			t.Errorf("last: %+v", last)
		}
	}
}

// A reader that goes away does not end the run.
func TestJSONWithoutAReader(t *testing.T) {
	t.Parallel()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	defer w.Close()
	j := NewJSON(w, true)
	begin, _ := deployment()
	emit(j, begin)
	if !j.broken {
		t.Error("still writing")
	}
}

func TestSummaries(t *testing.T) {
	t.Parallel()
	for want, s := range map[string]Summary{
		"deploy: nothing to change on 1 host, 1.0 s":            {Seconds: 1, Hosts: []HostSummary{{Host: "a", Status: OK, OK: 3}}},
		"deploy: done, 1 change on 1 host, 1 h 02 min":          {Seconds: 3720, Hosts: []HostSummary{{Host: "a", Status: Changed, Changed: 1}, {Host: "b", Status: OK}}},
		"deploy: 4 changes on 2 hosts, none made; 5 min 09 s":   {Plan: true, Seconds: 309, Hosts: []HostSummary{{Host: "a", Status: WouldChange, Changed: 1}, {Host: "b", Status: WouldChange, Changed: 3}}},
		"(exit code 130): of 2 hosts 1 interrupted, 1 not":      {Code: 130, Hosts: []HostSummary{{Host: "a", Status: Interrupted}, {Host: "b", Status: NotStarted}}},
		"deploy: nothing to change on 2 hosts, 0.0 s":           {Plan: true, Hosts: []HostSummary{{Host: "a", Status: OK}, {Host: "b", Status: OK}}},
		"warnings\n  a, b: x\n  a, b, c and 2 more: y\n  z\n\n": {Warnings: []Warning{{"x", []string{"a", "b"}}, {"y", []string{"a", "b", "c", "d", "e"}}, {Text: "z"}}},
	} {
		var st style
		st.fit(nil, 0)
		if got := st.summary("deploy", s); !strings.Contains(got, want) {
			t.Errorf("got\n%s\nwant %q in it", got, want)
		}
	}
}

func TestMaskedHidesSecretsEverywhere(t *testing.T) {
	t.Parallel()
	const password = "p4ssw0rd!"
	m := &secret.Masker{}
	m.Add(password)
	var out bytes.Buffer
	sum := &Summary{Warnings: []Warning{{Text: password}}, Hosts: []HostSummary{{Error: password}}}
	Masked(NewJSON(&out, true), m).Emit(Event{
		Text: password, Command: password, Detail: password, Diff: password, Error: password, Step: password, Summary: sum,
	})
	if strings.Contains(out.String(), password) {
		t.Errorf("shown: %s", out.String())
	}
	if sum.Hosts[0].Error != password {
		t.Error("the caller's summary was changed")
	}
}

func FuzzClean(f *testing.F) {
	f.Add("a\x1b[31mb\x1b]0;title\x07\r\nprogress 1\rprogress 2\n")
	f.Add("\x1b")
	f.Add("\x1b[")
	f.Add("\x1b[12")
	bad := regexp.MustCompile(`[\x00-\x08\x0b-\x1f\x7f\x{80}-\x{9f}\x{202e}]`)
	f.Fuzz(func(t *testing.T, text string) {
		got := clean(text)
		if bad.MatchString(got) {
			t.Errorf("%q: left %q", text, got)
		}
		if strings.Count(got, "\n") != strings.Count(text, "\n") {
			t.Errorf("%q: lines changed: %q", text, got)
		}
	})
}

func TestTook(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		0: "0.0 s", 9900 * time.Millisecond: "9.9 s", 59 * time.Second: "59 s", 65 * time.Second: "1 min 05 s", 2 * time.Hour: "2 h 00 min",
	} {
		if got := took(d); got != want {
			t.Errorf("%v: got %q, want %q", d, got, want)
		}
	}
}
