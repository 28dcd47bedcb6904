package worker

import (
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
)

// The first request of a task that began slowly is sent at once, and the next one to its host
// waits from then on; if another task has begun meanwhile, it waits for a turn like any other.
func TestFirst(t *testing.T) {
	t.Parallel()
	const delay = 10 * time.Second
	start := time.Unix(1_800_000_000, 0)
	at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	q := newQueue()
	var tasks []*task
	for range 3 {
		task := &task{host: "a", job: download.Job{Setting: download.Setting{Delay: delay, Concurrency: 3}}}
		q.add(task, start.Add(-delay))
		tasks = append(tasks, task)
	}
	if got, _ := q.next(start); got != tasks[0] {
		t.Fatal("the first one does not begin")
	}
	if got := q.first(tasks[0], at(4)).at; !got.Equal(at(4)) {
		t.Errorf("sent at %s, want %s", got, at(4))
	}
	if got, next := q.next(at(13)); got != nil || !next.Equal(at(14)) {
		t.Errorf("the second one: %v, %s, want %s", got, next, at(14))
	}
	if got, _ := q.next(at(14)); got != tasks[1] {
		t.Fatal("the second one does not begin")
	}
	if got, _ := q.next(at(24)); got != tasks[2] {
		t.Fatal("the third one does not begin")
	}
	if got := q.first(tasks[1], at(25)).at; !got.Equal(at(34)) {
		t.Errorf("the second one is sent at %s, want a delay after the third has begun, %s", got, at(34))
	}
	if got := q.first(tasks[2], at(26)).at; !got.Equal(at(44)) {
		t.Errorf("the third one is sent at %s, want a delay after the second, %s", got, at(44))
	}
}
