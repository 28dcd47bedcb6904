package worker

import (
	"cmp"
	"container/heap"
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
	"github.com/cr-clawer/urifilter/daemon/internal/fetch/uri"
)

// Bounds of how much an overloaded host is slowed down. The pause between two requests
// doubles with each sign of overload, and halves with each good answer.
const (
	minSlow = time.Second
	maxSlow = 2 * time.Minute
	// maxAfter is the longest Retry-After that is obeyed.
	maxAfter = time.Hour
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
	// longest is the longest delay seen, at least maxSlow. Hosts are forgotten only after it, so
	// that a later job still finds when they were last called.
	longest time.Duration
}

type host struct {
	name      string
	shard     int // -1 for a host that only a redirect or a similar request led to
	queue     int // see download.QueueOf
	waiting   []*task
	running   int
	further   int // requests of running tasks that wait until it is not held any more, before its waiting tasks
	pace      *pace
	asked     time.Time // when this host itself was last called
	slow      time.Duration
	wants     time.Duration            // the longest of origins: for jobs that obey robots.txt
	origins   map[string]time.Duration // their Crawl-delays
	notBefore time.Time                // the end of the pause that it has asked for
	kept      time.Time                // what the store knows of that
	at        time.Time                // when its first waiting task may begin, while it is in the heap
	index     int                      // in the heap, or -1
	free      time.Time                // for [queue.forecast]: when the host itself might be called once more
}

// pace records when one server was called and by how many downloads at once: one host, or all hosts that
// answered from one address, as they are one server. Each host that has not answered yet has a separate pace.
type pace struct {
	hosts   []*host
	address netip.Addr // not valid if the pace is that of a single host
	running int
	limit   int // of those that run, the least concurrency
	last    time.Time
	delay   time.Duration // of the task that began last
	took    time.Duration // by the task that ended last
}

// signal is what a download reveals about its host.
type signal struct {
	good, crowded bool
	after         time.Duration // the pause that the host has asked for
	host          string        // another host, which crowded and after are about; "": that of the task
}

func newQueue() *queue {
	return &queue{hosts: map[string]*host{}, addresses: map[netip.Addr]*pace{}, longest: maxSlow}
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
	q.longest = max(q.longest, t.delay())
	h.waiting = append(h.waiting, t)
	q.n++
	if len(h.waiting) == 1 { // the place of a host is that of its first task
		q.place(h.pace)
	}
}

// begin is when a request may be sent to the host, unless it must wait for a running task to end.
func (h *host) begin(delay time.Duration, obeys bool) time.Time {
	return later(h.pace.last.Add(max(h.pace.delay, delay)), h.held(obeys))
}

// held is until when the host itself must not be called, whatever others of its pace do. obeys says that
// the request is for a job that obeys robots.txt.
func (h *host) held(obeys bool) time.Time { return later(h.asked.Add(h.gap(obeys)), h.notBefore) }

// gap is the time that the host itself wants between two requests.
func (h *host) gap(obeys bool) time.Duration {
	if obeys {
		return max(h.slow, h.wants)
	}
	return h.slow
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// place puts the hosts of a pace where they belong in the heap. Their tasks begin in the order in which they came, as
// those of one host do: else one with a longer delay or a smaller concurrency than the others would wait for as long
// as they have any. A host that is held itself holds up no other.
func (q *queue) place(p *pace) {
	if len(p.hosts) == 1 {
		q.placeHost(p.hosts[0], false)
		return
	}
	var some []*host // with waiting tasks that may come next, the one that came first at the front
	for _, h := range p.hosts {
		if len(h.waiting) > 0 && h.further == 0 {
			some = append(some, h)
		} else {
			q.placeHost(h, false)
		}
	}
	slices.SortFunc(some, func(a, b *host) int { return cmp.Compare(a.waiting[0].order, b.waiting[0].order) })
	var before time.Time // when one of those that came before may be called
	for i, h := range some {
		t := h.waiting[0]
		q.placeHost(h, i > 0 && !before.After(h.begin(t.delay(), t.obeys())))
		if own := h.held(t.obeys()); i == 0 || own.Before(before) {
			before = own
		}
	}
}

// placeHost puts a host where it belongs in the heap: not at all while others are before it.
func (q *queue) placeHost(h *host, behind bool) {
	startable := !behind && h.further == 0 && len(h.waiting) > 0 && (h.pace.running == 0 || h.pace.running < min(h.pace.limit, h.waiting[0].concurrency()))
	if startable {
		h.at = h.begin(h.waiting[0].delay(), h.waiting[0].obeys())
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
	heap.Pop(&q.due)
	t := h.waiting[0]
	h.waiting[0] = nil
	h.waiting = h.waiting[1:]
	q.n--
	p := h.pace
	if p.running == 0 {
		p.limit = t.concurrency()
	}
	p.limit = min(p.limit, t.concurrency())
	p.running++
	h.running++
	t.began, t.pace = now, p
	h.noteCall(now, t.delay())
	q.place(p)
	return t, time.Time{}
}

// noteCall notes that the host is called at a time.
func (h *host) noteCall(at time.Time, delay time.Duration) {
	h.asked, h.pace.last, h.pace.delay = at, at, delay
}

// ended notes that a task from next has made all its requests to its host. It returns a host whose pause the store is to
// keep; nil: none.
func (q *queue) ended(t *task, s signal, now time.Time) (paused *host) {
	h := q.hosts[t.host]
	h.running--
	t.pace.running--
	t.pace.took = now.Sub(t.began)
	of := h // whom crowded and after are about
	if s.host != "" {
		of = q.host(s.host, -1, time.Time{})
	}
	switch {
	case s.crowded:
		of.slow = min(max(2*of.slow, minSlow), maxSlow)
	case s.good:
		if h.slow /= 2; h.slow < minSlow {
			h.slow = 0
		}
	}
	if until := now.Add(min(s.after, maxAfter)); s.after > 0 && until.After(of.notBefore) {
		of.notBefore = until
		if until.Sub(of.kept) > time.Second && (of != h || !t.script) { // a script is no host
			of.kept, paused = until, of
		}
	}
	for _, p := range slices.Compact([]*pace{of.pace, h.pace, t.pace}) { // mostly it is one
		q.place(p)
	}
	return paused
}

// turn is from when on a request may be sent to a host, and what was noted before.
type turn struct {
	refused     time.Duration // there is none: the host has asked for a pause, of which this is left
	at          time.Time
	again       bool // at is only when to give it up and to ask for a turn once more
	host        *host
	pace        *pace
	asked, last time.Time
	delay       time.Duration
}

// reserve is for a further request of a running task: it returns from when on the request may be sent. While the
// host itself is held, it has no turn among others of its pace, who would have to wait for it; only the waiting tasks of
// the host do, which would else have each turn before it.
func (q *queue) reserve(name string, delay time.Duration, obeys bool, now time.Time) turn {
	h := q.host(name, -1, time.Time{})
	at := later(now, h.begin(delay, obeys))
	if len(h.pace.hosts) > 1 && at.After(now) && at.Equal(h.held(obeys)) {
		h.further++
		q.place(h.pace)
		return turn{at: at, again: true, host: h}
	}
	mine := turn{at: at, host: h, pace: h.pace, asked: h.asked, last: h.pace.last, delay: h.pace.delay}
	h.noteCall(at, delay)
	q.longest = max(q.longest, delay)
	q.place(h.pace)
	return mine
}

// giveUp is for a turn in which no request was sent. If others have a later one, they keep theirs.
func (q *queue) giveUp(t turn) {
	if t.again {
		t.host.further--
		q.place(t.host.pace)
		return
	}
	if t.host == nil || t.host.pace != t.pace || !t.pace.last.Equal(t.at) || !t.host.asked.Equal(t.at) {
		return
	}
	t.host.asked, t.pace.last, t.pace.delay = t.asked, t.last, t.delay
	q.place(t.pace)
}

// want notes the Crawl-delay of an origin, of which two minutes are obeyed. The longest of a host's origins counts.
func (q *queue) want(name, origin string, delay time.Duration) {
	h := q.host(name, -1, time.Time{})
	if h.origins == nil {
		h.origins = map[string]time.Duration{}
	}
	h.origins[origin] = min(delay, maxSlow)
	h.wants = slices.Max(slices.Collect(maps.Values(h.origins)))
	q.longest = max(q.longest, h.wants)
	q.place(h.pace)
}

// pause is how long a host still wants no requests.
func (q *queue) pause(name string, now time.Time) time.Duration {
	if h := q.hosts[name]; h != nil {
		return h.notBefore.Sub(now)
	}
	return 0
}

// first is for the first request of a running task that comes some time after the task began: it
// returns from when on the request may be sent. Delays count from that time.
func (q *queue) first(t *task, now time.Time) turn {
	h := q.hosts[t.host]
	if h == nil || !h.pace.last.Equal(t.began) { // others have had their turn meanwhile
		return q.reserve(t.host, t.delay(), t.obeys(), now)
	}
	h.noteCall(now, h.pace.delay)
	q.place(h.pace)
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
	if h.index >= 0 {
		heap.Remove(&q.due, h.index)
	}
	h.waiting = slices.Delete(h.waiting, i, i+1)
	q.n--
	q.place(h.pace)
	return true
}

// maxHosts is how many hosts share a pace. Only addresses of large networks have more, and these
// stand for many servers.
const maxHosts = 1000

// met notes that a host has answered from an address: from now on it shares the pace of the others there.
func (q *queue) met(name string, address netip.Addr) {
	h := q.hosts[name]
	if h == nil || h.pace.address == address {
		return
	}
	shared := q.addresses[address]
	if shared == nil {
		shared = &pace{address: address, last: h.pace.last, delay: h.pace.delay}
		q.addresses[address] = shared
	}
	if len(shared.hosts) >= maxHosts {
		return
	}
	left := h.pace
	q.part(h) // running downloads count where they began
	q.place(left)
	free := shared.last.Add(shared.delay)
	if own := h.pace.last.Add(h.pace.delay); free.Before(own) {
		free = own
	}
	if shared.last.Before(h.pace.last) {
		shared.last = h.pace.last
	}
	shared.delay = free.Sub(shared.last)
	h.pace = shared
	shared.hosts = append(shared.hosts, h)
	q.place(shared)
}

// part removes a host from those that share its pace.
func (q *queue) part(h *host) {
	if i := slices.Index(h.pace.hosts, h); i >= 0 {
		h.pace.hosts = slices.Delete(h.pace.hosts, i, i+1)
	}
	if len(h.pace.hosts) == 0 && h.pace.address.IsValid() {
		delete(q.addresses, h.pace.address)
	}
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
	lost   bool // the lease is lost: nothing is to be settled
}

// scriptsAtOnce is how many runs of one script of a job may run at once.
const scriptsAtOnce = 16

func (t *task) delay() time.Duration {
	if t.script {
		return 0
	}
	return t.job.Setting.Delay
}

// obeys reports whether the first request of the task obeys robots.txt.
func (t *task) obeys() bool { return !t.script && t.job.Setting.Robots }

func (t *task) concurrency() int {
	if t.script {
		return scriptsAtOnce
	}
	return max(1, t.job.Setting.Concurrency)
}

// turns answer what the engine of an attempt asks about hosts: their methods are the functions of its [Work],
// which any goroutine may call. Each has the loop look into the queue.
type turns struct {
	l    *loop
	task *task

	mu        sync.Mutex
	addresses map[string]netip.Addr // by host: from where it has answered
}

// ask has the loop answer a question.
func ask[T any](ctx context.Context, l *loop, question func(l *loop) T) (T, error) {
	answer := make(chan T, 1)
	select {
	case l.events <- func(l *loop) { answer <- question(l) }:
		return <-answer, nil
	case <-ctx.Done():
		var none T
		return none, context.Cause(ctx)
	}
}

// further waits until a further request may be sent to the host of a URI. If the host has asked for a
// long pause, the attempt fails, so that others can take its place meanwhile.
func (s *turns) further(ctx context.Context, uri string) error {
	host, setting := download.HostOf(uri), &s.task.job.Setting
	return s.wait(ctx, host, false, func(q *queue, now time.Time) turn {
		return q.reserve(host, setting.Delay, setting.Robots, now) // also of a script
	})
}

// first waits until the first request of the task may be sent. If the host has asked for a long
// pause, the task is given back until then.
func (s *turns) first(ctx context.Context) error {
	return s.wait(ctx, s.task.host, true, func(q *queue, now time.Time) turn { return q.first(s.task, now) })
}

// wait waits for a turn, unless the host has asked for a pause longer than the bound; also a turn that was waited for is
// none if the host has asked for a pause meanwhile. A turn that is not taken, because ctx ends, is given back.
func (s *turns) wait(ctx context.Context, host string, early bool, reserve func(q *queue, now time.Time) turn) error {
	var mine turn
	giveUp := func(l *loop) { l.queue.giveUp(mine) }
	for {
		next, err := ask(ctx, s.l, func(l *loop) turn {
			now := time.Now()
			left := l.queue.pause(host, now)
			if mine.host != nil && !mine.again && left <= 0 {
				return turn{} // mine has come
			}
			giveUp(l)
			if left > l.opt.Bound {
				return turn{refused: left}
			}
			return reserve(l.queue, now)
		})
		if err != nil {
			s.l.events <- giveUp
			return err
		}
		if left := next.refused; left > 0 {
			return &Failure{Reason: fmt.Sprintf("retry_after: %s has asked for a pause, of which %s are left", host, left.Round(time.Second)), After: left, Early: early}
		}
		mine = next
		left := time.Until(mine.at)
		select {
		case <-time.After(left):
			if left <= 0 && !mine.again {
				return nil
			}
		case <-ctx.Done():
			s.l.events <- giveUp
			return context.Cause(ctx)
		}
	}
}

// wants notes the Crawl-delay of the origin of a URI.
func (s *turns) wants(ctx context.Context, text string, delay time.Duration) {
	u, err := uri.Parse(text)
	if err != nil {
		return
	}
	select {
	case s.l.events <- func(l *loop) { l.queue.want(u.Name(), u.Origin(), delay) }:
	case <-ctx.Done():
	}
}

// holds reports whether this worker holds the shard of a URI's host.
func (s *turns) holds(ctx context.Context, uri string) (bool, error) {
	return ask(ctx, s.l, func(l *loop) bool {
		_, held := l.shards.serves(download.ShardOf(download.HostOf(uri)))
		return held
	})
}

// met notes the address from which the host of a URI has answered.
func (s *turns) met(uri, remote string) {
	at, err := netip.ParseAddrPort(remote)
	if err != nil || s.l.opt.ApartAddresses {
		return
	}
	host := s.task.host
	if uri != s.task.lease.Task.URI || s.task.script {
		host = download.HostOf(uri)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.addresses == nil {
		s.addresses = map[string]netip.Addr{}
	}
	s.addresses[host] = at.Addr().Unmap().WithZone("")
}

// end tells that all requests of the attempt are made, and what they have shown about the hosts.
func (s *turns) end(page Page, failure *Failure) {
	is := signal{good: failure == nil && !page.Crowded, crowded: page.Crowded}
	if failure != nil && !failure.Early {
		if is.crowded, is.host = failure.Crowded, failure.Host; failure.Status != 0 {
			is.after = failure.After
		}
	}
	s.l.events <- func(l *loop) {
		if h := l.queue.ended(s.task, is, time.Now()); h != nil {
			l.keepPause(h.name, h.kept)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		for host, address := range s.addresses {
			l.queue.met(host, address)
		}
	}
}
