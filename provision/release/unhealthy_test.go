package release

import (
	"context"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/provision/host"
)

// A release whose daemon crashes is not a target of a rollback; one whose daemon runs keeps its
// mark.
func TestACrashTakesTheMarkAway(t *testing.T) {
	t.Parallel()
	onUnix(t)
	f, h := At(t.TempDir(), program), &machine{}
	start := time.Date(2026, 11, 21, 9, 15, 0, 0, time.UTC)
	old, bad := deployment(t, f, "urifilter v1.0.0", start), deployment(t, f, "urifilter v1.1.0", start.Add(time.Hour))
	apply(t, h, all(old)...)
	apply(t, h, all(bad)...)
	says := func(yes bool) func(context.Context, host.Host) (bool, error) {
		return func(context.Context, host.Host) (bool, error) { return yes, nil }
	}
	if done := apply(t, h, f.Unhealthy(says(false))); len(done) != 0 {
		t.Errorf("a daemon that runs: %q", done)
	}
	if done := apply(t, h, f.Unhealthy(says(true))); len(done) != 1 || done[0] != "mark "+bad.ID()+" as not healthy: its daemon crashes" {
		t.Errorf("a daemon that crashes: %q", done)
	}
	if done := apply(t, h, f.Unhealthy(says(true))); len(done) != 0 {
		t.Errorf("a second time: %q", done)
	}
	apply(t, h, f.Pointing(old.ID))
	list, err := f.List(t.Context(), h)
	if err != nil {
		t.Fatal(err)
	}
	if m, ok := list.Previous(); ok {
		t.Errorf("a rollback would go to %s", m.ID)
	}
}

// A release that is healthy once more, after a rollback, is the one that was healthy last: the next rollback goes to it,
// and not to the one that people went away from. It is also kept as long as any.
func TestWhatWasHealthyLast(t *testing.T) {
	t.Parallel()
	onUnix(t)
	f, h := At(t.TempDir(), program), &machine{}
	start := time.Date(2026, 11, 21, 9, 15, 0, 0, time.UTC)
	var all []*Deployment
	for i, text := range []string{"urifilter v1", "urifilter v2", "urifilter v3", "urifilter v4"} {
		d := deployment(t, f, text, start.Add(time.Duration(i)*time.Hour))
		apply(t, h, d.Upload(), d.Current())
		all = append(all, d)
		if i == 3 {
			break
		}
		// The clock of the machine that deployed the third was ahead.
		at := map[bool]time.Time{false: start.Add(time.Duration(i) * time.Hour), true: time.Now().Add(time.Hour)}[i == 2]
		if err := f.MarkHealthy(t.Context(), h, d.ID(), at); err != nil {
			t.Fatal(err)
		}
	}
	apply(t, h, f.Pointing(all[0].ID), f.Healthy())
	if done := apply(t, h, f.Healthy()); len(done) != 0 {
		t.Errorf("a second time: %q", done)
	}
	apply(t, h, f.Pointing(all[3].ID), all[3].Healthy(), all[3].Prune())
	list, err := f.List(t.Context(), h)
	if m, ok := list.Previous(); err != nil || !ok || m.ID != all[0].ID() {
		t.Errorf("a rollback would go to %s, want %s; %v", m.ID, all[0].ID(), err)
	}
}

// A release that somebody puts there whose clock is behind is the newest all the same. Otherwise hosts of which only some
// have it would go back past the one before it.
func TestNewestReleaseOfAClockThatIsBehind(t *testing.T) {
	t.Parallel()
	onUnix(t)
	f, h := At(t.TempDir(), program), &machine{}
	start := time.Date(2026, 11, 21, 9, 15, 0, 0, time.UTC)
	for i, text := range []string{"urifilter v1", "urifilter v2"} {
		d := deployment(t, f, text, start.Add(-time.Duration(i)*time.Hour))
		apply(t, h, d.Upload())
	}
	list, err := f.List(t.Context(), h)
	if err != nil || len(list.Releases) != 2 || list.Releases[0].Version != "urifilter v2" {
		t.Errorf("%+v, %v", list.Releases, err)
	}
}

// Releases that become healthy within one second have different marks, though these are in whole seconds.
func TestHealthyWithinOneSecond(t *testing.T) {
	t.Parallel()
	last := time.Unix(1e9, 0)
	for _, now := range []time.Duration{-time.Hour, 0, time.Second / 2, time.Second, time.Minute} {
		at := later(last.Add(now), last)
		if !at.Truncate(time.Second).After(last) || now >= time.Second && !at.Equal(last.Add(now)) {
			t.Errorf("%s after the last mark: %s after it", now, at.Sub(last))
		}
	}
}
