//go:build linux

package scriptengine

import (
	"context"
	"errors"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
	"github.com/cr-clawer/urifilter/daemon/internal/download/script"
	"github.com/cr-clawer/urifilter/daemon/internal/download/script/child"
	"github.com/cr-clawer/urifilter/daemon/internal/download/script/wire"
	"github.com/cr-clawer/urifilter/daemon/internal/download/worker"
)

// Code that uses too much of anything is stopped, the reason is named, and the next attempt works.
func TestHostileCode(t *testing.T) {
	r := newRig(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, strings.Repeat("x", 900_000)) },
		func(o *Options) { o.Memory = 128 << 20 })
	for name, c := range map[string]struct{ body, want string }{
		"memory by texts": {"x = 'x'\nwhile True:\n    x += x", "memory: job.star: wanted more than 128 MiB"},
		"memory by lists": {"x = [1]\nwhile True:\n    x = x + x", "memory: job.star: wanted more than 128 MiB"},
		"memory by items": {"x = []\nwhile True:\n    x.append({})", "memory: job.star: wanted more than 128 MiB"},
		"recursion":       {"def f(n):\n    return f(n + 1) + 1\nf(0)", "has more than 1000 calls in calls"},
		"nested values":   {"json.decode('[' * 800000)", "stack: job.star: "},
		"records":         {"while True:\n    emit(1)", "code: job.star:3:13: emit: more than 10000 records"},
		"a giant output":  {"x = 'x' * 1000000\nwhile True:\n    emit(x)", "code: job.star:4:13: emit: more than 16777216 bytes of records"},
		"links":           {"for i in range(1000000):\n    follow('/' + str(i))", "code: job.star:3:15: follow: more than 10000 links"},
		"links at once":   {"follow(['/%d' % i for i in range(100000)])", "follow: more than 10000 links"},
		"pages":           {"while True:\n    fetch(task.uri, method = 'HEAD')", "code: job.star:3:14: fetch: more than 100 pages in one attempt"},
		"bytes":           {"while True:\n    fetch(task.uri)", "fetch: more than 33554432 bytes of pages in one attempt"},
		"a giant request": {"fetch(task.uri, body = 'x' * 2000000)", "fetch: body of 2000000 bytes: want 1048576 at most"},
		"a giant reason":  {"fail('x' * 1000000)", "job.star:2:9: xxxx"},
	} {
		_, failure := r.run(c.body)
		if failure == nil || !strings.Contains(failure.Reason, c.want) || len(failure.Reason) > download.MaxReason {
			t.Errorf("%s: got %.300v, want %q", name, failure, c.want)
		}
	}
	if len(r.followed) > 0 {
		t.Errorf("followed %d links of attempts that failed", len(r.followed))
	}
	r.good("while len(task.uri) < 0:\n    pass\nfor i in range(100000):\n    log(i)")
	if n := strings.Count(r.log.String(), "job code says"); n != 100 {
		t.Errorf("%d lines are in the log, want 100", n)
	}
}

// An endless loop ends at the first of three limits: steps, processor time, the attempt's timeout.
func TestEndlessLoops(t *testing.T) {
	const loop = "n = 0\nwhile True:\n    n += 1"
	r := newRig(t, nil, func(o *Options) { o.CPU = time.Second })
	if _, failure := r.run(loop); failure == nil || !strings.Contains(failure.Reason, "used more than 1 s of the processor") || !strings.HasPrefix(failure.Reason, "code: job.star:") {
		t.Errorf("CPU: %+v", failure)
	}
	// The interpreter takes no step meanwhile: the kernel ends it.
	if _, failure := r.run("x = 1 << 500\nfor i in range(40):\n    x = x * x"); failure == nil || !strings.Contains(failure.Reason, "processor") && !strings.Contains(failure.Reason, "memory") {
		t.Errorf("without steps: %+v", failure)
	}
	if _, failure := r.run(loop, func(s *download.Setting) { s.Timeout = 100 * time.Millisecond }); failure == nil || !strings.Contains(failure.Reason, "timeout: ran longer than 100ms") {
		t.Errorf("timeout: %+v", failure)
	}
	r.good("log('still here')")
}

// If a page does not come, the attempt ends in time, and the error says where the code waits. On a
// busy machine the attempt may end before its code requests the page: then it gets more time.
func TestTimeoutOfAPage(t *testing.T) {
	asked, left := make(chan struct{}, 10), make(chan struct{}, 10) // one per attempt
	r := newRig(t, func(_ http.ResponseWriter, q *http.Request) {
		asked <- struct{}{}
		<-q.Context().Done()
		left <- struct{}{}
	})
	for timeout := 500 * time.Millisecond; timeout < 5*time.Minute; timeout *= 2 {
		_, failure := r.run("fetch(task.uri)", func(s *download.Setting) { s.Timeout = timeout })
		if failure == nil || !strings.Contains(failure.Reason, "timeout") {
			t.Errorf("%+v", failure)
		}
		select {
		case <-asked:
			<-left
			return
		default:
		}
	}
	t.Error("the page was not asked for")
}

// Stopping the worker does not wait for the code.
func TestTheWorkerStops(t *testing.T) {
	r := newRig(t, func(_ http.ResponseWriter, q *http.Request) { <-q.Context().Done() })
	stopped := errors.New("stopped")
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(50*time.Millisecond, func() { cancel(stopped) })
	w := r.work("def download(task):\n    while True:\n        pass\n")
	if _, err := r.engine.Download(ctx, w); err == nil {
		t.Error("no error")
	}
}

// The process is not trusted: its messages are counted, even if it is no longer ours.
func TestLiars(t *testing.T) {
	dir, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, nil, func(o *Options) { o.Program = filepath.Join(dir, "liar") })
	for lie, want := range map[string]string{
		"records": "emitted more than allowed",
		"links":   "followed more links than allowed",
		"page":    "returned a page that does not exist",
		"empty":   "sent an unknown message",
		"garbage": "its process sent an invalid message",
		"length":  "its process sent an invalid message: message of 4294967295 bytes",
		"silent":  "its process has ended without a message: exit status 7: bye",
		"system":  "made a system call that the jail forbids",
	} {
		if _, failure := r.runAll("# " + lie + "\ndef download(task): pass\n"); failure == nil || !strings.Contains(failure.Reason, want) {
			t.Errorf("%s: got %+v, want %q", lie, failure, want)
		}
	}
}

// A process that cannot be told what it waits for ends at once, with the reason.
func TestMessageThatIsTooLong(t *testing.T) {
	e := newRig(t, nil).engine
	p, err := startProcess(e.o.Program, e.limits(), child.Args(e.limits()))
	if err != nil {
		t.Fatal(err)
	}
	defer p.end()
	p.send(wire.Down{Start: &wire.Start{Text: strings.Repeat("x", wire.MaxMessage)}})
	var m wire.Up
	if err := p.read(&m); err != io.EOF {
		t.Errorf("it says %+v, %v", m, err)
	}
	if failure, want := p.wait("job.star"), "job.star: its process could not be told what it waits for: message of "; !strings.Contains(failure.Reason, want) {
		t.Errorf("got %+v, want %q", failure, want)
	}
}

// A process that cannot be started, as on a machine without memory, costs no attempt.
func TestNoProcess(t *testing.T) {
	e := New(Options{Program: filepath.Join(t.TempDir(), "gone")})
	_, err := e.Download(t.Context(), worker.Work{
		Task: download.Task{URI: "http://localhost/"},
		Job:  download.Job{Name: "j", Setting: download.Setting{Timeout: time.Minute}, Code: download.Code{Language: script.Language, File: "j.star", Text: "def download(task): pass\n"}},
	})
	if f := worker.FailureOf(err); f == nil || !f.Early || f.After <= 0 || f.Permanent {
		t.Errorf("%+v", f)
	}
}

// Without a jail no code is run.
func TestWithoutAJail(t *testing.T) {
	r := newRig(t, nil)
	if err := r.engine.Probe(t.Context()); err != nil {
		t.Fatal(err)
	}
	dir, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	r.engine.o.Program = filepath.Join(dir, "liar") // it says that there is none
	if err := r.engine.Probe(t.Context()); err == nil || err.Error() != "jail: no Landlock here" {
		t.Errorf("got %v", err)
	}
	if _, failure := r.run("pass"); failure == nil || failure.Permanent || failure.After < time.Minute || !strings.HasPrefix(failure.Reason, "jail: ") {
		t.Errorf("got %+v", failure)
	}
}
