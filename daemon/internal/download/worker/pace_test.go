package worker

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
)

// TestQueueOfAddresses plays random histories of hosts on few addresses: hosts met at one address keep
// the delays and the concurrency of all that share it; nothing is stuck; in the end all is forgotten.
func TestQueueOfAddresses(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 11))
		q := newQueue()
		now := time.Unix(1_800_000_000, 0)
		addressOf := func(host string) netip.Addr {
			return netip.AddrFrom4([4]byte{192, 0, 2, (host[1] - '0') % 3})
		}
		type model struct {
			last    time.Time
			delay   time.Duration
			running []*task
		}
		addresses := map[netip.Addr]*model{}
		known := map[string]*model{} // hosts with a known address
		var running []*task
		waits := 0
		for range 1000 {
			if r.IntN(3) == 0 && waits < 100 {
				waits++
				q.add(&task{host: fmt.Sprint("h", r.IntN(9)), job: download.Job{Setting: download.Setting{
					Delay: time.Duration(r.IntN(4)) * time.Second, Concurrency: 1 + r.IntN(3)}}}, now.Add(-time.Minute))
			}
			if len(running) > 0 && r.IntN(2) == 0 {
				i := r.IntN(len(running))
				done := running[i]
				running = slices.Delete(running, i, i+1)
				q.ended(done, signal{good: true}, now)
				address := addressOf(done.host)
				for _, m := range addresses {
					m.running = slices.DeleteFunc(m.running, func(o *task) bool { return o == done })
				}
				if known[done.host] == nil {
					if addresses[address] == nil {
						addresses[address] = &model{}
					}
					known[done.host] = addresses[address]
				}
				q.met(done.host, address)
			}
			next, at := q.next(now)
			if next == nil {
				if at.IsZero() && len(running) == 0 && waits > 0 {
					t.Fatalf("seed %d: nothing runs, %d wait, and none may begin", seed, waits)
				}
				if !at.IsZero() {
					now = at
				}
				continue
			}
			waits--
			running = append(running, next)
			m := known[next.host]
			if m == nil {
				continue
			}
			if gap := now.Sub(m.last); gap < max(m.delay, next.delay()) {
				t.Fatalf("seed %d: %v between two at one address, want %v", seed, gap, max(m.delay, next.delay()))
			}
			m.running = append(m.running, next)
			m.last, m.delay = now, next.delay()
			for _, other := range m.running {
				if len(m.running) > other.concurrency() {
					t.Fatalf("seed %d: %d at once at one address, want %d", seed, len(m.running), other.concurrency())
				}
			}
		}
		for len(running) > 0 || waits > 0 {
			for _, done := range running {
				q.ended(done, signal{good: true}, now)
			}
			running = nil
			next, at := q.next(now)
			if next != nil {
				waits--
				running = append(running, next)
			} else if !at.IsZero() {
				now = at
			} else if waits > 0 {
				t.Fatalf("seed %d: %d wait, and none may begin", seed, waits)
			}
		}
		if q.forget(now.Add(time.Hour)); len(q.hosts) != 0 || len(q.addresses) != 0 {
			t.Fatalf("seed %d: %d hosts and %d addresses are known for ever", seed, len(q.hosts), len(q.addresses))
		}
	}
}

// TestTurnsAtAnAddress: of hosts at one address, one with a longer delay or a smaller concurrency has its turn, however
// many tasks the other has.
func TestTurnsAtAnAddress(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ one, other download.Setting }{
		"a longer delay":        {download.Setting{Delay: 10 * time.Second, Concurrency: 1}, download.Setting{Delay: time.Second, Concurrency: 1}},
		"a smaller concurrency": {download.Setting{Concurrency: 1}, download.Setting{Concurrency: 4}},
		"both":                  {download.Setting{Delay: 5 * time.Second, Concurrency: 2}, download.Setting{Delay: 500 * time.Millisecond, Concurrency: 9}},
	} {
		q := newQueue()
		now := time.Unix(1_800_000_000, 0)
		add := func(host string, s download.Setting) {
			q.add(&task{host: host, job: download.Job{Setting: s}}, now.Add(-time.Minute))
			q.met(host, netip.MustParseAddr("192.0.2.1"))
		}
		var running []*task
		began := map[string]int{}
		for range 2000 {
			for q.hosts["other"] == nil || len(q.hosts["other"].waiting) < 5 {
				add("other", test.other)
			}
			if q.hosts["one"] == nil || len(q.hosts["one"].waiting) == 0 {
				add("one", test.one)
			}
			for next, _ := q.next(now); next != nil; next, _ = q.next(now) {
				running = append(running, next)
				began[next.host]++
			}
			now = now.Add(250 * time.Millisecond)
			running = slices.DeleteFunc(running, func(r *task) bool {
				over := now.Sub(r.began) >= 1500*time.Millisecond+time.Duration(r.order%4)*250*time.Millisecond
				if over {
					q.ended(r, signal{good: true}, now)
				}
				return over
			})
		}
		if began["one"] < 10 || began["other"] < 40 {
			t.Errorf("%s: began %v in 500 s", name, began)
		}
	}
}

// TestHeldAtAnAddress: a host that wants to be left alone holds up no other of its address.
func TestHeldAtAnAddress(t *testing.T) {
	t.Parallel()
	q := newQueue()
	now := time.Unix(1_800_000_000, 0)
	for _, host := range []string{"held", "other"} {
		first := &task{host: host}
		q.add(first, now.Add(-time.Minute))
		if got, _ := q.next(now); got != first {
			t.Fatalf("%s: its task does not begin", host)
		}
		s := signal{good: true}
		if host == "held" {
			s.after = time.Minute
		}
		q.ended(first, s, now)
		q.met(host, netip.MustParseAddr("192.0.2.1"))
	}
	q.add(&task{host: "held"}, now.Add(-time.Minute))
	second := &task{host: "other"}
	q.add(second, now.Add(-time.Minute))
	if got, _ := q.next(now); got != second {
		t.Errorf("began %+v, want the task of the other host", got)
	}
	if _, at := q.next(now); !at.IsZero() {
		t.Errorf("the host that is held may be called at %v, while the other is", at)
	}
	q.ended(second, signal{good: true}, now)
	if got, at := q.next(now); got != nil || !at.Equal(now.Add(time.Minute)) {
		t.Errorf("the host that is held may be called %s later, want 1m", at.Sub(now))
	}
}

// TestCrawlDelayAtAnAddress: the Crawl-delay of a host is for that host, not for the others of its address, such as
// that of a CDN: these keep to the delay of their job.
func TestCrawlDelayAtAnAddress(t *testing.T) {
	t.Parallel()
	q := newQueue()
	start := time.Unix(1_800_000_000, 0)
	now := start
	job := download.Job{Setting: download.Setting{Delay: time.Second, Concurrency: 1, Robots: true}}
	began := map[string][]time.Duration{}
	for _, host := range []string{"slow", "other"} {
		for range 10 {
			q.add(&task{host: host, job: job}, start.Add(-time.Hour))
			q.met(host, netip.MustParseAddr("192.0.2.1"))
		}
	}
	q.want("slow", "http://slow", 2*time.Minute)
	for q.n > 0 {
		next, at := q.next(now)
		if next == nil {
			now = at
			continue
		}
		began[next.host] = append(began[next.host], now.Sub(start))
		q.ended(next, signal{good: true}, now)
	}
	for i := range 10 {
		slow, other := began["slow"][i], began["other"][i]
		if least := time.Duration(i) * 2 * time.Minute; slow < least || slow > least+time.Second || other > time.Duration(i+1)*time.Second {
			t.Errorf("task %d: after %s of the slow host, and after %s of the other", i, slow, other)
		}
	}
	// Nor does a further request of the slow host, such as after a redirect, which waits for its turn.
	asked := q.reserve("slow", time.Second, true, now)
	q.add(&task{host: "other", job: job}, start)
	if next, _ := q.next(now.Add(time.Second)); next == nil {
		t.Error("the other host waits for a further request of the slow one")
	}
	if got := q.reserve("slow", time.Second, true, asked.at); !asked.again || got.again || !got.at.Equal(asked.at) || asked.at != now.Add(2*time.Minute) {
		t.Errorf("a further request of the slow host: %+v, and when it is not held any more: %+v", asked, got)
	}
}

// TestFurtherRequestOfAHeldHost: it comes before the waiting tasks of the host. Each of these would else have its turn
// before it, and it would wait, and run, for as long as there are any.
func TestFurtherRequestOfAHeldHost(t *testing.T) {
	t.Parallel()
	q := newQueue()
	now := time.Unix(1_800_000_000, 0)
	job := download.Job{Setting: download.Setting{Delay: time.Second, Concurrency: 2, Robots: true}}
	for _, host := range []string{"slow", "other", "slow"} {
		q.add(&task{host: host, job: job}, now.Add(-time.Hour))
		q.met(host, netip.MustParseAddr("192.0.2.1"))
	}
	if began, _ := q.next(now); began == nil || began.host != "slow" {
		t.Fatalf("%+v began, want a task of the slow host", began)
	}
	q.want("slow", "http://slow", time.Minute)
	asked := q.reserve("slow", time.Second, true, now)
	if began, _ := q.next(now.Add(time.Second)); began == nil || began.host != "other" {
		t.Errorf("%+v began, want that of the other host", began)
	} else {
		q.ended(began, signal{good: true}, now.Add(time.Second))
	}
	if began, at := q.next(asked.at); began != nil {
		t.Errorf("%+v began before a further request of its host, or waits until %s", began, at)
	}
	q.giveUp(asked)
	if got := q.reserve("slow", time.Second, true, asked.at); got.again || !got.at.Equal(asked.at) {
		t.Errorf("a further request when the host is not held any more: %+v, and before that: %+v", got, asked)
	}
	// Nor do others of the address wait for it, also where its waiting task might be called now.
	again := q.reserve("slow", time.Second, true, asked.at)
	q.hosts["slow"].waiting[0].job.Setting.Robots = false
	q.add(&task{host: "other", job: job}, now)
	if began, _ := q.next(asked.at.Add(time.Second)); began == nil || began.host != "other" {
		t.Errorf("%+v began, want a task of the other host", began)
	} else {
		q.ended(began, signal{good: true}, asked.at.Add(time.Second))
	}
	// One that is given up lets the task begin.
	if q.giveUp(again); !again.again {
		t.Errorf("one more: %+v", again)
	}
	if began, at := q.next(asked.at.Add(time.Minute)); began == nil {
		t.Errorf("the task waits until %s, want %s", at, asked.at.Add(time.Minute))
	}
}

// TestForecastBesideAHeldHost: what is expected of a host says nothing about those that share its address.
func TestForecastBesideAHeldHost(t *testing.T) {
	t.Parallel()
	q := newQueue()
	now := time.Unix(1_800_000_000, 0)
	job := download.Job{Setting: download.Setting{Delay: time.Second, Concurrency: 1}}
	for i, host := range []string{"held", "other", "held", "other"} {
		uri := "http://" + host + "/"
		q.add(&task{host: host, job: job, lease: download.Lease{Task: download.Task{URI: uri}}}, now.Add(-time.Hour))
		if i < 2 {
			q.met(host, netip.MustParseAddr("192.0.2.1"))
		}
	}
	q.hosts["held"].notBefore = now.Add(time.Hour) // by a Retry-After
	late := q.late(now, now.Add(10*time.Second))
	if len(late) != 2 || late[0].task.host != "held" || late[1].task.host != "held" || !late[0].at.Equal(now.Add(time.Hour)) {
		t.Errorf("late are %+v, want the two of the host that is held", late)
	}
	if got := q.enough(now, now.Add(10*time.Second)); !slices.Equal(got, []int{download.QueueOf("http://held/")}) {
		t.Errorf("enough of %v, want of %d, that of the host that is held", got, download.QueueOf("http://held/"))
	}
}

// TestForecastOfAHeldHost: also when it is not held any more, its tasks begin one after the other.
func TestForecastOfAHeldHost(t *testing.T) {
	t.Parallel()
	q := newQueue()
	now := time.Unix(1_800_000_000, 0)
	job := download.Job{Setting: download.Setting{Delay: time.Second, Concurrency: 1}}
	for range 20 {
		q.add(&task{host: "a", job: job, lease: download.Lease{Task: download.Task{URI: "http://a/"}}}, now.Add(-time.Hour))
	}
	q.hosts["a"].notBefore = now.Add(5 * time.Second) // by a Retry-After
	late := q.late(now, now.Add(10*time.Second))
	if len(late) != 14 || !late[13].at.Equal(now.Add(24*time.Second)) {
		t.Errorf("%d are late, %+v, want 14, one a second", len(late), late)
	}
	if got := q.enough(now, now.Add(10*time.Second)); len(got) != 1 {
		t.Errorf("enough of %v, want of the host", got)
	}
}

// TestLateAtAnAddress: the tasks of hosts that share a pace wait for each other, and those with a
// long wait are known.
func TestLateAtAnAddress(t *testing.T) {
	t.Parallel()
	q := newQueue()
	now := time.Unix(1_800_000_000, 0)
	job := download.Job{Setting: download.Setting{Delay: time.Second, Concurrency: 1}}
	address := netip.MustParseAddr("192.0.2.1")
	for i := range 10 {
		name := fmt.Sprint("h", i)
		q.add(&task{host: name, job: job}, now.Add(-time.Minute))
		q.met(name, address)
	}
	if late := q.late(now, now.Add(4500*time.Millisecond)); len(late) != 5 || !late[4].at.Equal(now.Add(9*time.Second)) {
		t.Errorf("%d tasks are late, want the last 5 of 10", len(late))
	}
}

// TestEnough: a worker has enough tasks of a host if one more could not begin soon, because of its delay, because it
// was slowed down, or because its requests take long.
func TestEnough(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	setting := func(delay time.Duration, concurrency int) download.Job {
		return download.Job{Setting: download.Setting{Delay: delay, Concurrency: concurrency}}
	}
	for name, test := range map[string]struct {
		job     download.Job
		tasks   int
		running int           // since
		since   time.Duration // before now
		slow    time.Duration
		want    bool
	}{
		"few":                         {job: setting(time.Second, 1), tasks: 9},
		"many":                        {job: setting(time.Second, 1), tasks: 12, want: true},
		"many without a delay":        {job: setting(0, 100), tasks: 1000},
		"slowed down":                 {job: setting(0, 100), tasks: 9, slow: 2 * time.Second, want: true},
		"two that run, for a moment":  {job: setting(0, 2), tasks: 9, running: 2, since: time.Second},
		"two that run, and no answer": {job: setting(0, 2), tasks: 9, running: 2, since: 4 * time.Second, want: true},
		"one of two runs":             {job: setting(0, 2), tasks: 9, running: 1, since: 4 * time.Second},
	} {
		q := newQueue()
		for i := range test.running + test.tasks {
			uri := fmt.Sprintf("http://a.example/%d", i)
			q.add(&task{host: "a.example", job: test.job, lease: download.Lease{Task: download.Task{URI: uri}}}, now.Add(-time.Hour))
		}
		for range test.running {
			if next, _ := q.next(now.Add(-test.since)); next == nil {
				t.Fatalf("%s: it cannot begin", name)
			}
		}
		h := q.hosts["a.example"]
		if h.slow = test.slow; test.slow > 0 {
			h.asked = now
		}
		got := q.enough(now, now.Add(10*time.Second))
		if test.want != (len(got) == 1 && got[0] == download.QueueOf("http://a.example/")) || !test.want && len(got) > 0 {
			t.Errorf("%s: enough of %v, want it: %t", name, got, test.want)
		}
	}
}

// TestMet: an address is noted without its port, and in its canonical form.
func TestMet(t *testing.T) {
	t.Parallel()
	s := turns{l: &loop{Worker: &Worker{}}, task: &task{}}
	s.met("http://a/", "192.0.2.1:80")
	s.met("http://b/", "[::ffff:192.0.2.1]:443")
	s.met("http://c/", "[fe80::1%eth0]:443")
	s.met("http://d/", "no address")
	all := s.addresses
	if len(all) != 3 || all["a"] != all["b"] || all["c"] != netip.MustParseAddr("fe80::1") {
		t.Errorf("%v", all)
	}
}

// Of the Crawl-delays of a host's ports the longest counts, whichever came last, until its port has another.
func TestCrawlDelaysOfPorts(t *testing.T) {
	t.Parallel()
	q := newQueue()
	for _, c := range []struct {
		origin      string
		delay, want time.Duration
	}{
		{"https://a", 10 * time.Second, 10 * time.Second},
		{"http://a", 2 * time.Second, 10 * time.Second},
		{"http://a", 0, 10 * time.Second},
		{"https://a", 5 * time.Second, 5 * time.Second},
		{"https://a", 0, 0},
	} {
		if q.want("a", c.origin, c.delay); q.hosts["a"].gap(true) != c.want {
			t.Errorf("%s wants %s: a gap of %s, want %s", c.origin, c.delay, q.hosts["a"].gap(true), c.want)
		}
	}
}
