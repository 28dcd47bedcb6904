package fleet

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cr-clawer/urifilter/provision/report"
	"github.com/cr-clawer/urifilter/provision/secret"
)

func TestResumeRunsWhatWasNotDone(t *testing.T) {
	t.Parallel()
	s := &scene{}
	phases := func(b Job) []Phase {
		return []Phase{
			{Name: "filter", Rolling: true, Jobs: []Job{
				job("a", s.change("a", "x", nil)), b, job("c", s.change("c", "x", nil)), away("d"),
			}},
			{Name: "cron", Jobs: []Job{job("a", s.change("a", "y", nil))}},
		}
	}
	o := s.options()
	o.NoLock, o.Runs, o.Again, o.GoOn, o.Inputs = false, filepath.Join(t.TempDir(), "runs"), "mage deploy", "mage deploy -resume", "sha1"
	o.Canary, o.Batch = 0, "1"
	o.Masker = &secret.Masker{}
	o.Masker.Add("disk is full")
	run := func(p []Phase, resume bool) (Summary, error) {
		t.Helper()
		q := o
		q.Resume = resume
		r, err := prepare(p, q)
		if err != nil {
			return Summary{}, err
		}
		if err := r.resume(); err != nil {
			return Summary{}, err
		}
		r.o.NoLock = true // strict hosts have no lock
		r.begin()
		stop := r.timekeeper(t.Context())
		defer stop()
		if r.open(t.Context()) {
			for _, p := range r.phases {
				r.phase(t.Context(), p)
			}
		}
		return r.end(t.Context())
	}

	if _, err := run(phases(job("b")), true); Code(err) != CodeUsage || !strings.Contains(err.Error(), "no run of deploy is kept") {
		t.Errorf("resume of nothing: %v", err)
	}
	sum, err := run(phases(job("b", s.change("b", "x", broken))), false)
	wantCode(t, err, CodeFailed)
	wantStatuses(t, sum, "a not started", "b failed", "c not started", "d unreachable")
	if sum.Next != o.GoOn {
		t.Errorf("next: %q", sum.Next)
	}
	names, _ := recordNames(o.Runs)
	if len(names) != 1 {
		t.Fatalf("records: %q", names)
	}
	file := filepath.Join(o.Runs, names[0])
	text, _ := os.ReadFile(file)
	if info, _ := os.Stat(file); info.Mode().Perm()&0o077 != 0 {
		t.Errorf("mode: %v", info.Mode())
	}
	if strings.Contains(string(text), "disk is full") || !strings.Contains(string(text), `"status": "unreachable"`) {
		t.Errorf("record: %s", text)
	}

	// a's second job was not done, so a is not done.
	sum, err = run(phases(job("b", s.change("b", "x", nil))), true)
	wantCode(t, err, CodeUnreachable)
	wantStatuses(t, sum, "a changed", "b changed", "c changed", "d unreachable")

	sum, err = run(phases(job("b")), true)
	wantCode(t, err, CodeUnreachable)
	wantStatuses(t, sum, "a skipped", "b skipped", "c skipped", "d unreachable")

	// Resuming a run does not touch a host that the run did not concern.
	more := append(phases(job("b")), Phase{Name: "more", Jobs: []Job{job("e", s.change("e", "x", nil))}})
	sum, err = run(more, true)
	wantCode(t, err, CodeUnreachable)
	wantStatuses(t, sum, "a skipped", "b skipped", "c skipped", "d unreachable", "e skipped")
	if s.happened("e x") {
		t.Error("e was changed")
	}
	if last, err := lastRun(o.Runs, "deploy"); err != nil || len(last.Hosts) != 4 {
		t.Errorf("record: %+v, %v", last, err)
	}

	o.Inputs = "sha2"
	s.state = nil
	sum, err = run(more, true)
	wantCode(t, err, CodeUnreachable)
	wantStatuses(t, sum, "a changed", "b ok", "c changed", "d unreachable", "e skipped")
	if !slices.ContainsFunc(s.events, func(e report.Event) bool {
		return e.Kind == report.Said && strings.Contains(e.Text, "has changed since run")
	}) {
		t.Error("nobody was told why hosts that were done are done again")
	}
	o.Target = "other"
	if _, err = run(phases(job("b")), true); Code(err) != CodeUsage {
		t.Errorf("other target: %v", err)
	}
}

func TestARunThatCannotBeKeptIsDone(t *testing.T) {
	t.Parallel()
	s := &scene{}
	o := s.options()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := prepare([]Phase{{Name: "p", Jobs: []Job{job("a", s.change("a", "x", nil))}}}, o)
	if err != nil {
		t.Fatal(err)
	}
	r.o.Runs = filepath.Join(file, "runs")
	r.record = &record{ID: "x"}
	r.begin()
	defer r.timekeeper(t.Context())()
	r.open(t.Context())
	r.phase(t.Context(), r.phases[0])
	sum, err := r.end(t.Context())
	wantCode(t, err, CodeDone)
	if len(sum.Warnings) != 1 || !strings.Contains(sum.Warnings[0].Text, "cannot be resumed") {
		t.Errorf("warnings: %+v", sum.Warnings)
	}
}

func TestRecordsThatAreNotReadable(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{"2.json": "{", ".run-1": "junk", "1.json": `{"target":"deploy","id":"1"}`} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := lastRun(dir, "deploy"); err == nil || !strings.Contains(err.Error(), "hint: remove it") {
		t.Errorf("error: %v", err)
	}
	if err := os.Remove(filepath.Join(dir, "2.json")); err != nil {
		t.Fatal(err)
	}
	if last, err := lastRun(dir, "deploy"); err != nil || last.ID != "1" {
		t.Errorf("last: %+v, %v", last, err)
	}
}

func TestOldRecordsGo(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for i := range keepRuns + 3 {
		if err := write(dir, &record{ID: fmt.Sprintf("%04d", i)}); err != nil {
			t.Fatal(err)
		}
	}
	prune(dir)
	names, err := recordNames(dir)
	if err != nil || len(names) != keepRuns || names[0] != "0003.json" {
		t.Errorf("%d records from %s, %v", len(names), names[0], err)
	}
}
