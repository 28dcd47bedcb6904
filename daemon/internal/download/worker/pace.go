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
