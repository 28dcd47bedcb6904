package worker

import (
	"cmp"
	"container/heap"
	"net/netip"
	"slices"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
)

// Bounds of how much an overloaded host is slowed down. The pause between two requests
// doubles with each sign of overload, and halves with each good answer.
const (
	leastSlow = time.Second
	mostSlow  = 2 * time.Minute
	// mostAfter is the longest Retry-After that is obeyed.
	mostAfter = time.Hour
)

// queue holds the leased tasks that have not begun, by host, and knows when the next task of each
// host may begin: after the longer of the delays of this task and the last one, and with no more
// tasks at once than the least of their concurrencies. It is for one goroutine.
type queue struct {
	hosts     map[string]*host
	addresses map[netip.Addr]*pace
	due       dueHeap
	n         int   // waiting tasks
	came      int64 // tasks that ever came, which gives their order
	// longest is the longest delay seen, at least mostSlow. Hosts are forgotten only after it, so
	// that a later job still finds when they were last called.
	longest time.Duration
}

type host struct {
	name      string
	shard     int // -1 for a host that only a redirect or a similar request led to
	queue     int // see download.QueueOf
	waiting   []*task
	running   int
	pace      *pace
	asked     time.Time // when this host itself was last called
	slow      time.Duration
	wants     time.Duration // Crawl-delay of its robots.txt
	notBefore time.Time
	at        time.Time // when its first waiting task may begin, while it is in the heap
	index     int       // in the heap, or -1
}

// signal is what a download reveals about its host.
type signal struct {
	good, crowded bool
	after         time.Duration
}

func newQueue() *queue {
	return &queue{hosts: map[string]*host{}, addresses: map[netip.Addr]*pace{}, longest: mostSlow}
}

// host returns the host of a name. A new host is not called before the time since when this
// worker holds its shard, because the previous holder may have called it until then.
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

// since notes that others may have called the host until then.
func (h *host) since(at time.Time) {
	if h.asked.Before(at) {
		h.asked = at
	}
	if h.pace.last.Before(at) {
		h.pace.last = at
	}
}

// add queues a task behind the others of its host.
func (q *queue) add(t *task, since time.Time) {
	h := q.host(t.host, t.lease.Task.Shard, since)
	h.queue = download.QueueOf(t.lease.Task.URI)
	q.came++
	t.order = q.came
	q.longest = max(q.longest, h.delay(t))
	h.waiting = append(h.waiting, t)
	q.n++
	q.place(h)
}

// begin is when a task of the host may begin next, unless it must wait for a running one to end.
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
		h.at = h.begin(h.delay(h.waiting[0]))
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

// next takes the task that may begin now, of several the one that came first. Otherwise it returns
// nil and the time when there will be one, or the zero time if a running task must end first.
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
	h.noteCall(now, h.delay(t))
	q.place(h) // it has one task fewer
	q.placeAll(p)
	return t, time.Time{}
}

// noteCall notes that the host is called at a time.
func (h *host) noteCall(at time.Time, delay time.Duration) {
	h.asked, h.pace.last, h.pace.delay = at, at, delay
}

// ended notes that a task from next has made all its requests to its host.
func (q *queue) ended(t *task, s signal, now time.Time) {
	h := q.hosts[t.host]
	h.running--
	t.pace.running--
	t.pace.took = now.Sub(t.began)
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

// turn is from when on a request may be sent to a host, and what was noted before.
type turn struct {
	at          time.Time
	host        *host
	pace        *pace
	asked, last time.Time
	delay       time.Duration
}

// reserve is for a further request of a running task: it returns from when on the request may be sent.
func (q *queue) reserve(name string, delay time.Duration, now time.Time) turn {
	h := q.host(name, -1, time.Time{})
	at := h.begin(delay)
	if at.Before(now) {
		at = now
	}
	mine := turn{at, h, h.pace, h.asked, h.pace.last, h.pace.delay}
	h.noteCall(at, delay)
	q.longest = max(q.longest, delay)
	q.placeAll(h.pace)
	return mine
}

// giveUp is for a turn in which no request was sent. If others have a later one, they keep theirs.
func (q *queue) giveUp(t turn) {
	if t.host == nil || t.host.pace != t.pace || !t.pace.last.Equal(t.at) || !t.host.asked.Equal(t.at) {
		return
	}
	t.host.asked, t.pace.last, t.pace.delay = t.asked, t.last, t.delay
	q.placeAll(t.pace)
}

// delay is the time between the starts of two requests to a host, the second of which is for a task: that of
// its job, or what the host wants, if it is more and the job obeys robots.txt.
func (h *host) delay(t *task) time.Duration {
	if !t.script && t.job.Setting.Robots {
		return max(t.delay(), h.wants)
	}
	return t.delay()
}

// want notes the Crawl-delay of a host, of which two minutes are obeyed.
func (q *queue) want(name string, delay time.Duration) {
	h := q.host(name, -1, time.Time{})
	h.wants = min(delay, mostSlow)
	q.longest = max(q.longest, h.wants)
	q.placeAll(h.pace)
}

// pause is how long a host still wants no requests.
func (q *queue) pause(name string, now time.Time) time.Duration {
	h := q.hosts[name]
	if h == nil {
		return 0
	}
	return h.notBefore.Sub(now)
}

// first is for the first request of a running task that comes some time after the task began: it
// returns from when on the request may be sent. Delays count from that time.
func (q *queue) first(t *task, now time.Time) turn {
	h := q.hosts[t.host]
	if h == nil || !h.pace.last.Equal(t.began) { // others have had their turn meanwhile
		return q.reserve(t.host, q.host(t.host, -1, time.Time{}).delay(t), now)
	}
	h.noteCall(now, h.pace.delay)
	q.placeAll(h.pace)
	return turn{at: now} // nothing to give up: it had its turn when it began
}

// remove takes out a waiting task, and reports whether it was there.
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

// late is a task that will not begin for a long time.
type late struct {
	task *task
	at   time.Time // when it might
}

// late returns the tasks that cannot begin before a time.
func (q *queue) late(now, than time.Time) []late {
	var all []late
	for _, h := range q.hosts {
		if h != h.pace.hosts[0] {
			continue // it comes with that host
		}
		q.forecast(h.pace, now, func(t *task, at time.Time) {
			if at.After(than) {
				all = append(all, late{t, at})
			}
		})
	}
	return all
}

// forget drops hosts whose state is that of a new host.
func (q *queue) forget(now time.Time) {
	for name, h := range q.hosts {
		if len(h.waiting) == 0 && h.running == 0 && !h.asked.Add(max(q.longest, h.slow)).After(now) && !h.notBefore.After(now) {
			q.part(h)
			delete(q.hosts, name)
		}
	}
}

// dueHeap holds the hosts with a task that can begin, ordered by when.
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
	lost   bool // the lease is lost: nothing is to be settled
}

// hostOf returns the host of a URI, which is usually that of the task.
func (t *task) hostOf(uri string) string {
	if uri == t.lease.Task.URI && !t.script {
		return t.host
	}
	return download.HostOf(uri)
}

// scriptsAtOnce is how many runs of one script of a job may run at once.
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
