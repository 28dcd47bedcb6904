package worker

import (
	"cmp"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// pace records when one server was called and by how many downloads at once: one host, or all hosts that
// answered from one address, as they are one server. Each host that has not answered yet has a separate pace.
type pace struct {
	hosts   []*host
	address netip.Addr // not valid if the pace is that of a single host
	running int
	most    int // of those that run, the least concurrency
	last    time.Time
	delay   time.Duration // of the task that began last
	took    time.Duration // by the task that ended last
}

// forecast calls each with the waiting tasks of a pace, in their order, and when each might begin. It returns
// when one more might.
func (q *queue) forecast(p *pace, now time.Time, each func(t *task, at time.Time)) time.Time {
	// Where no more may run at once, those that run may take longer than the last one did.
	full := func(most int) (bool, time.Duration) {
		if p.running > 0 && p.running >= most {
			return true, max(p.took, now.Sub(p.last))
		}
		return false, p.took
	}
	waiting := p.waiting()
	if len(waiting) == 0 {
		if full, took := full(p.most); full {
			return now.Add(took / time.Duration(p.most))
		}
		return p.last.Add(p.delay)
	}
	var at time.Time
	step := time.Duration(0)
	for i, t := range waiting {
		own := q.hosts[t.host]
		full, took := full(min(p.most, t.concurrency()))
		step = max(own.delay(t), own.slow, took/time.Duration(t.concurrency()))
		if at = at.Add(step); i == 0 {
			at = now
			if full {
				at = now.Add(step)
			}
			if begin := own.begin(own.delay(t)); begin.After(at) {
				at = begin
			}
		}
		each(t, at)
	}
	return at.Add(step)
}

// enough returns the queues of the hosts with tasks here of which one more task could not begin before a time.
func (q *queue) enough(now, than time.Time) []int {
	var all []int
	next := map[*pace]time.Time{}
	for _, h := range q.hosts {
		if h.shard < 0 || len(h.waiting) == 0 && h.running == 0 {
			continue
		}
		at, known := next[h.pace]
		if !known {
			at = q.forecast(h.pace, now, func(*task, time.Time) {})
			next[h.pace] = at
		}
		if at.After(than) {
			all = append(all, h.queue)
		}
	}
	return all
}

// mostHosts is how many hosts share a pace. Only addresses of large networks have more, and these
// stand for many servers.
const mostHosts = 1000

// waiting returns the waiting tasks of all hosts of a pace, in their order.
func (p *pace) waiting() []*task {
	if len(p.hosts) == 1 {
		return p.hosts[0].waiting
	}
	var all []*task
	for _, h := range p.hosts {
		all = append(all, h.waiting...)
	}
	slices.SortFunc(all, func(a, b *task) int { return cmp.Compare(a.order, b.order) })
	return all
}

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
	if len(shared.hosts) >= mostHosts {
		return
	}
	q.part(h) // running downloads count where they began
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
	q.placeAll(shared)
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

// placeAll puts all hosts of a pace where they belong in the heap.
func (q *queue) placeAll(p *pace) {
	for _, h := range p.hosts {
		if len(h.waiting) > 0 || h.index >= 0 {
			q.place(h)
		}
	}
}

// met collects the addresses from which the hosts of an attempt have answered.
type met struct {
	mu        sync.Mutex
	addresses map[string]netip.Addr // by host
}

// note is called by the engine, see [Work].
func (m *met) note(host, remote string) {
	at, err := netip.ParseAddrPort(remote)
	if err != nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.addresses == nil {
		m.addresses = map[string]netip.Addr{}
	}
	m.addresses[host] = at.Addr().Unmap().WithZone("")
}

// all returns the addresses by host.
func (m *met) all() map[string]netip.Addr {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.addresses
}
