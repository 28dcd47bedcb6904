package schedule

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/systemd"
)

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	for want, o := range map[string]Options{
		"schedule.when":            {When: "monthly"},
		"a timer cannot have both": {Kind: Timer, When: "0 0 1 * 1"},
	} {
		o.Program = systemd.Urifilter()
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: got %v, want %q in it", o, err, want)
		}
	}
}

func TestCrontabText(t *testing.T) {
	t.Parallel()
	s, err := New(Options{Program: systemd.Urifilter()})
	if err != nil {
		t.Fatal(err)
	}
	const line = "\n0 0 1 * * urifilter systemd-cat --identifier=urifilter-writeback /opt/urifilter/current/urifilter bitmap update --config /etc/urifilter/urifilter.yaml\n"
	if text := s.text(); !strings.HasSuffix(text, line) || !strings.Contains(text, "\nURIFILTER_TOKEN_FILE=\"/etc/urifilter/operator.token\"\n") {
		t.Errorf("got\n%s", text)
	}
	s, err = New(Options{Program: systemd.Urifilter(), When: "@daily", User: "crawl", Shared: true})
	if err != nil {
		t.Fatal(err)
	}
	if text := s.text(); !strings.HasSuffix(text, "\n0 0 * * * crawl systemd-cat --identifier=urifilter-writeback /opt/urifilter/current/urifilter bitmap update --config /etc/urifilter/urifilter.yaml --yield\n") {
		t.Errorf("got\n%s", text)
	}
	if job := s.dropInFiles()[0].Content; !strings.Contains(job, "\nExecStart=\nExecStart=/opt/urifilter/current/urifilter bitmap update") {
		t.Errorf("got\n%s", job)
	}
}

// timerless is a host that has the drop-ins, but not the timer.
type timerless struct {
	host.Host
	ran []host.Command
}

func (h *timerless) Run(_ context.Context, c host.Command) (host.Output, error) {
	h.ran = append(h.ran, c)
	return host.Output{Stdout: "LoadState=not-found\n"}, nil
}

// The program registers the timer by a command that changes the host: it must neither be run twice, nor be answered
// from memory.
func TestRegisteringIsNoLook(t *testing.T) {
	t.Parallel()
	s, err := New(Options{Program: systemd.Urifilter(), Kind: Timer})
	if err != nil {
		t.Fatal(err)
	}
	h := &timerless{}
	change, err := s.timer().Look(t.Context(), h)
	if err != nil || change == nil {
		t.Fatal(change, err)
	}
	if err := change.Apply(t.Context()); err != nil {
		t.Fatal(err)
	}
	if last := h.ran[len(h.ran)-1]; !strings.Contains(last.Script, "service install --timer") || last.Look || last.Watch {
		t.Errorf("%+v", last)
	}
}

// written is a host that has the drop-ins, which systemd has not read.
type written struct {
	host.Host
	files map[string]string
	ran   []string
}

func (h *written) Run(_ context.Context, c host.Command) (host.Output, error) {
	for path, content := range h.files {
		if strings.Contains(c.Script, path) {
			return host.Output{Stdout: fmt.Sprintf("1\nregular file|%d|644|root|root\n%s", len(content), content)}, nil
		}
	}
	if !c.Look && !c.Watch {
		h.ran = append(h.ran, c.Script)
	}
	return host.Output{Stdout: "NeedDaemonReload=no\n\nNeedDaemonReload=yes\n"}, nil
}

// A timer keeps its old time until systemd has read the new one, also when the run that wrote it was broken off.
func TestDropInsThatSystemdHasNotRead(t *testing.T) {
	t.Parallel()
	s, err := New(Options{Program: systemd.Urifilter(), Kind: Timer})
	if err != nil {
		t.Fatal(err)
	}
	h := &written{files: map[string]string{}}
	for _, f := range s.dropInFiles() {
		h.files[f.Path] = f.Content
	}
	change, err := s.dropIns().Look(t.Context(), h)
	if err != nil || change == nil || !strings.Contains(change.Summary, "urifilter-writeback.timer") {
		t.Fatal(change, err)
	}
	if err := change.Apply(t.Context()); err != nil || len(h.ran) != 1 || h.ran[0] != "systemctl daemon-reload" {
		t.Errorf("%q, %v", h.ran, err)
	}
}
