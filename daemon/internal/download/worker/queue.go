package worker

import (
	"cmp"
	"container/heap"
	"net/netip"
	"slices"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
)

// Bounds of how much slower a host is asked that has too much to do. The pause between two
// requests doubles with each sign of it, and halves with each good answer.
const (
	leastSlow = time.Second
	mostSlow  = 2 * time.Minute
	// mostAfter is how long a Retry-After is heeded.
	mostAfter = time.Hour
)

// queue has the tasks that are leased and have not begun, by host, and knows when the next one of
// each host may begin: so long after the last one as the longer of their delays says, and with no
// more at once than the least of their concurrencies. It is for one goroutine.
type queue struct {
	hosts     map[string]*host
	addresses map[netip.Addr]*pace
	due       dueHeap
	n         int   // tasks that wait
	came      int64 // tasks that ever came, which is their order
	// longest is the longest delay that was seen, mostSlow at least: hosts are forgotten only after
	// it, so that a job which comes then finds when they were asked last.
	longest time.Duration
}

type host struct {
	name      string
	shard     int // -1 for one that only a redirect or the like led to
	waiting   []*task
	running   int
	pace      *pace
	asked     time.Time // when it was asked last itself
	slow      time.Duration
	notBefore time.Time
	at        time.Time // when the first that waits may begin, while it is in the heap
	index     int       // in the heap, -1 if it is not there
}

// signal is what a download tells of its host.
type signal struct {
	good, crowded bool
	after         time.Duration
}

func newQueue() *queue {
	return &queue{hosts: map[string]*host{}, addresses: map[netip.Addr]*pace{}, longest: mostSlow}
}

// host returns the host of a name. One that is new has nothing before the time since when this
// worker has its shard: who had it before may have asked it then.
func (q *queue) host(name string, shard int, since time.Time) *host {
	h := q.hosts[name]
	if h == nil {
		h = &host{name: name, shard: shard, asked: since, index: -1}
		h.pace = &pace{hosts: []*host{h}, last: since}
		q.hosts[name] = h
	}
	if h.shard < 0 && shard >= 0 { // a redirect led to it before it had tasks
		h.shard = shard
		h.since(since)
	}
	return h
}

// since says that others may have asked the host until then.
func (h *host) since(at time.Time) {
	if h.asked.Before(at) {
		h.asked = at
	}
	if h.pace.last.Before(at) {
		h.pace.last = at
	}
}

// add puts a task behind those of its host.
func (q *queue) add(t *task, since time.Time) {
	h := q.host(t.host, t.lease.Task.Shard, since)
	q.came++
	t.order = q.came
	q.longest = max(q.longest, t.delay())
	h.waiting = append(h.waiting, t)
	q.n++
	q.place(h)
}

// begin is when a task of the host may begin next, if one of them that run ends or none is in the way.
func (h *host) begin(delay time.Duration) time.Time {
	at := h.pace.last.Add(max(h.pace.delay, delay))
	for _, bound := range []time.Time{h.asked.Add(h.slow), h.notBefore} {
		if at.Before(bound) {
			at = bound
		}
	}
	return at
}

// place puts a host where it belongs in the heap.
func (q *queue) place(h *host) {
	startable := len(h.waiting) > 0 && (h.pace.running == 0 || h.pace.running < min(h.pace.most, h.waiting[0].concurrency()))
	if startable {
		h.at = h.begin(h.waiting[0].delay())
	}
	switch {
	case startable && h.index < 0:
		heap.Push(&q.due, h)
	case startable:
		heap.Fix(&q.due, h.index)
	case h.index >= 0:
		heap.Remove(&q.due, h.index)
	}
}

// next takes the task that may begin now, the one that came first; or returns nil and when there
// will be one, the zero time if that needs an end of others.
func (q *queue) next(now time.Time) (*task, time.Time) {
	if len(q.due) == 0 {
		return nil, time.Time{}
	}
	h := q.due[0]
	if h.at.After(now) {
		return nil, h.at
	}
	t := h.waiting[0]
	h.waiting[0] = nil
	h.waiting = h.waiting[1:]
	q.n--
	p := h.pace
	if p.running == 0 {
		p.most = t.concurrency()
	}
	p.most = min(p.most, t.concurrency())
	p.running++
	h.running++
	t.began, t.pace = now, p
	h.ask(now, t.delay())
	q.place(h) // it has one task less
	q.placeAll(p)
	return t, time.Time{}
}

// ask notes that the host is asked at a time.
func (h *host) ask(at time.Time, delay time.Duration) {
	h.asked, h.pace.last, h.pace.delay = at, at, delay
}

// ended says that a task which next returned has asked its host for all that it wanted.
func (q *queue) ended(t *task, s signal, now time.Time) {
	h := q.hosts[t.host]
	h.running--
	t.pace.running--
	switch {
	case s.crowded:
		h.slow = min(max(2*h.slow, leastSlow), mostSlow)
	case s.good:
		if h.slow /= 2; h.slow < leastSlow {
			h.slow = 0
		}
	}
	if until := now.Add(min(s.after, mostAfter)); s.after > 0 && until.After(h.notBefore) {
		h.notBefore = until
	}
	q.place(h)
	q.placeAll(t.pace)
}

// reserve is for a further request of a task that runs: it returns from when on it may be sent.
func (q *queue) reserve(name string, delay time.Duration, now time.Time) time.Time {
	h := q.host(name, -1, time.Time{})
	at := h.begin(delay)
	if at.Before(now) {
		at = now
	}
	h.ask(at, delay)
	q.longest = max(q.longest, delay)
	q.placeAll(h.pace)
	return at
}

// pause is how long a host has asked not to be asked.
func (q *queue) pause(name string, now time.Time) time.Duration {
	h := q.hosts[name]
	if h == nil {
		return 0
	}
	return h.notBefore.Sub(now)
}

// first is for the first request of a task that runs, if that comes some time after the task began:
// it returns from when on it may be sent. Delays count from there.
func (q *queue) first(t *task, now time.Time) time.Time {
	h := q.hosts[t.host]
	if h == nil || !h.pace.last.Equal(t.began) { // others have had their turn meanwhile
		return q.reserve(t.host, t.delay(), now)
	}
	h.ask(now, h.pace.delay)
	q.placeAll(h.pace)
	return now
}

// remove takes out a task that waits, and tells whether it was there.
func (q *queue) remove(t *task) bool {
	h := q.hosts[t.host]
	if h == nil {
		return false
	}
	i := slices.Index(h.waiting, t)
	if i < 0 {
		return false
	}
	h.waiting = slices.Delete(h.waiting, i, i+1)
	q.n--
	q.place(h)
	return true
}

// late is a task that will not begin for long.
type late struct {
	task *task
	at   time.Time // when it might
}

// late tells which tasks cannot begin before a time.
func (q *queue) late(than time.Time) []late {
	var all []late
	for _, h := range q.hosts {
		if h != h.pace.hosts[0] {
			continue // it comes with that one
		}
		at := time.Time{}
		for _, t := range h.pace.waiting() {
			own := q.hosts[t.host]
			if at.IsZero() {
				at = own.begin(t.delay())
			} else {
				at = at.Add(max(t.delay(), own.slow))
			}
			if at.After(than) {
				all = append(all, late{t, at})
			}
		}
	}
	return all
}

// forget lets go of hosts that a new one would be the same as.
func (q *queue) forget(now time.Time) {
	for name, h := range q.hosts {
		if len(h.waiting) == 0 && h.running == 0 && !h.asked.Add(max(q.longest, h.slow)).After(now) && !h.notBefore.After(now) {
			q.part(h)
			delete(q.hosts, name)
		}
	}
}

// dueHeap has the hosts of which a task can begin, by when.
type dueHeap []*host

func (d dueHeap) Len() int { return len(d) }
func (d dueHeap) Less(i, j int) bool {
	return cmp.Or(d[i].at.Compare(d[j].at), cmp.Compare(d[i].waiting[0].order, d[j].waiting[0].order)) < 0
}
func (d dueHeap) Swap(i, j int) {
	d[i], d[j] = d[j], d[i]
	d[i].index, d[j].index = i, j
}
func (d *dueHeap) Push(x any) {
	h := x.(*host)
	h.index = len(*d)
	*d = append(*d, h)
}
func (d *dueHeap) Pop() any {
	last := len(*d) - 1
	h := (*d)[last]
	(*d)[last] = nil
	*d = (*d)[:last]
	h.index = -1
	return h
}

// task is a lease of a task, and the download of it.
type task struct {
	lease  download.Lease
	job    download.Job
	host   string
	script bool // a run of generate or parse, which calls no host when it begins
	order  int64
	began  time.Time // when it was taken from the queue
	pace   *pace     // of its host then
	until  time.Time // when the lease ends, by this machine's clock
	cancel func(cause error)
	runs   bool
	lost   bool // the lease: nothing is to be settled
}

// hostOf is the host of a URI, which is mostly that of the task.
func (t *task) hostOf(uri string) string {
	if uri == t.lease.Task.URI && !t.script {
		return t.host
	}
	return download.HostOf(uri)
}

// scriptsAtOnce is how many runs of one script of a job there are at once.
const scriptsAtOnce = 16

func (t *task) delay() time.Duration {
	if t.script {
		return 0
	}
	return t.job.Setting.Delay
}

func (t *task) concurrency() int {
	if t.script {
		return scriptsAtOnce
	}
	return max(1, t.job.Setting.Concurrency)
}
