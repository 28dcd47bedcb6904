package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/bench/report"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/simhash"
	"github.com/cr-clawer/urifilter/daemon/internal/lab/load/lean"
)

// texts measures the kind that is asked about texts: fingerprints, look-ups, and over HTTP.
func texts(s settings) error {
	for _, part := range []func(settings) error{fingerprints, lookUps, nearOverHTTP} {
		if err := part(s); err != nil {
			return err
		}
	}
	return nil
}

// page returns a text of about size bytes.
func page(rnd *rand.Rand, size int) string {
	var b strings.Builder
	for b.Len() < size {
		fmt.Fprintf(&b, "%x ", rnd.Uint64()>>(rnd.IntN(14)*4))
	}
	return b.String()
}

func fingerprints(s settings) error {
	t := report.Table{{"feature hash", "text", "a fingerprint", "of text a second"}}
	rnd := rand.New(rand.NewPCG(1, 2))
	for _, hash := range []string{configs.FeatureXXH3, configs.FeatureMD5} {
		h, err := simhash.ParseFeatureHash(hash)
		if err != nil {
			return err
		}
		for _, size := range []int{2000, 100_000} {
			text := page(rnd, size)
			var all []time.Duration
			for range s.runs {
				n := 20_000_000 / size
				start := time.Now()
				for range n {
					h.Fingerprint(text)
				}
				all = append(all, time.Since(start)/time.Duration(n))
			}
			for _, d := range all {
				s.out.Run(fmt.Sprintf("Fingerprint/hash=%s/bytes=%d", hash, size), report.Nanos("op", float64(d.Nanoseconds())))
			}
			took := report.Median(all)
			t.Row(hash, fmt.Sprintf("%d bytes", len(text)), fmt.Sprintf("%.3f ms", float64(took.Nanoseconds())/1e6), fmt.Sprintf("%.0f MB", float64(len(text))/1e6/took.Seconds()))
		}
	}
	s.out.Table("fingerprints", "One core", t)
	return nil
}

// corpus is a distribution of fingerprints.
type corpus struct {
	name  string
	n     int
	print func(rnd *rand.Rand) uint64
}

func corpora() []corpus {
	return []corpus{
		{"spread", 1_000_000, (*rand.Rand).Uint64},
		{"spread", 10_000_000, (*rand.Rand).Uint64},
		// Pages with much in common: they differ in only 20 of the 64 bits, so that in three of the
		// four tables all are in one bucket.
		{"in one bucket", 1_000_000, func(rnd *rand.Rand) uint64 { return rnd.Uint64() >> 44 << 10 }},
		{"around 1,000", 1_000_000, around1000},
		{"around 1,000", 10_000_000, around1000},
		{"all the same", 1_000_000, func(*rand.Rand) uint64 { return 42 }},
	}
}

// around1000 returns the fingerprint of a page with one of a thousand boilerplates, from which
// it differs in up to eight bits.
func around1000(rnd *rand.Rand) uint64 {
	print := rand.New(rand.NewPCG(rnd.Uint64N(1000), 0)).Uint64()
	for range rnd.IntN(9) {
		print ^= 1 << rnd.IntN(64)
	}
	return print
}

// lookUps measures a look-up, and one whose document is then remembered, among the documents of
// each corpus; and how long it takes to build the index of those, as happens at a start.
func lookUps(s settings) error {
	t := report.Table{{"fingerprints", "documents", "kept", "bytes of each", "built in", "look-up p50", "p99", "worst", "remembered p50", "p99", "worst"}}
	for _, c := range corpora() {
		x := simhash.NewIndex(3)
		rnd := rand.New(rand.NewPCG(3, 4))
		next := 0
		document := func() simhash.Document {
			next++
			return simhash.Document{ID: fmt.Appendf(nil, "https://example.com/%010d", next), Fingerprint: c.print(rnd)}
		}
		start := time.Now()
		for next < c.n {
			if err := x.Put(document()); err != nil {
				return err
			}
		}
		row := []string{c.name, report.Million(float64(c.n)), fmt.Sprint(x.Len()), fmt.Sprintf("%.1f", float64(x.Bytes())/float64(x.Len())), fmt.Sprintf("%.1f s", time.Since(start).Seconds())}
		for _, remember := range []bool{false, true} {
			var times []time.Duration
			for range 20_000 {
				q := simhash.Query{Document: document(), Distance: 3, Limit: 10}
				start := time.Now()
				if remember {
					if _, err := x.Add(q, nil, func() {}); err != nil {
						return err
					}
				} else {
					x.Near(q, nil)
				}
				times = append(times, time.Since(start))
			}
			slices.Sort(times)
			for _, d := range []time.Duration{report.Quantile(times, 0.5), report.Quantile(times, 0.99), times[len(times)-1]} {
				row = append(row, fmt.Sprintf("%.3f ms", float64(d.Nanoseconds())/1e6))
			}
		}
		t.Row(row...)
		if err := x.Free(); err != nil {
			return err
		}
	}
	s.out.Table("lookups", "In process: distance 3, ids of 30 bytes", t)
	return nil
}

// nearOverHTTP drives a filter of texts and a bloom filter in turn.
func nearOverHTTP(s settings) error {
	t := report.Table{{"durability", "connections", "bloom", "documents/s", "of text a second", "p50", "p99"}}
	for _, durability := range []string{"none", "always"} {
		srv, err := startServer(s, durability)
		if err != nil {
			return err
		}
		sample := "Near/durability=" + durability
		turns := []turn{
			{sample + "/bloom", func(conns int) (m measured, err error) {
				if err = srv.emptyFilter(10_000_000); err == nil {
					m, err = drive(srv.addr, conns, batch/2, s.duration)
				}
				return m, err
			}},
			{sample, func(conns int) (m measured, err error) {
				if err = srv.remake(`{"id":1,"kind":"simhash"}`); err == nil {
					m, err = driveBy(dialTexts(int(800*s.duration.Seconds())/conns), srv.addr, conns, 0, s.duration)
				}
				m.rate, m.items = m.rate*perCall/batch, m.items*perCall/batch
				return m, err
			}},
		}
		err = s.inTurn(turns, func(conns int, all []runs) {
			rate := all[1].rate()
			t.Row(durability, fmt.Sprint(conns), report.Million(all[0].rate())+" items/s", fmt.Sprintf("%.0f", rate), fmt.Sprintf("%.0f MB", rate*textBytes/1e6), all[1].p50(), all[1].p99())
		})
		if err := errors.Join(err, srv.stop()); err != nil {
			return err
		}
	}
	s.out.Table("near", fmt.Sprintf("Over HTTP: calls of %d texts of %d bytes, half of them edits of those before; bloom: batches of 1,000 in the same run", perCall, textBytes), t)
	return nil
}

// A call of nearOverHTTP: so many documents, with texts of that size.
const perCall, textBytes = 100, 2000

// textSender sends documents.
type textSender struct {
	client
	calls [][]byte // what is left of them
}

// dialTexts returns a function that makes a sender with so many calls at most, which are made beforehand.
func dialTexts(calls int) func(addr string, from uint64, _ int) (*textSender, error) {
	type document struct {
		ID   string `json:"id"`
		Text string `json:"text"`
	}
	return func(addr string, from uint64, _ int) (*textSender, error) {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			return nil, err
		}
		c := &textSender{client: client{conn: lean.New(conn)}}
		rnd := rand.New(rand.NewPCG(from, 0))
		for range max(20, calls) {
			var docs []document
			for i := range perCall {
				text := page(rnd, textBytes)
				if i%2 == 1 {
					text = docs[i-1].Text + " edited"
				}
				docs = append(docs, document{fmt.Sprintf("https://example.com/%016x", rnd.Uint64()), text})
			}
			text, err := json.Marshal(map[string]any{"filter_typeid": 1, "documents": docs})
			if err != nil {
				return nil, err
			}
			c.calls = append(c.calls, post(addr, "near", string(text)))
		}
		return c, nil
	}
}

func (c *textSender) send() error {
	if len(c.calls) == 0 {
		return errAllSent
	}
	err := c.exchange(c.calls[0])
	c.calls = c.calls[1:]
	return err
}
