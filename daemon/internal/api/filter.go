package api

import (
	"errors"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/items"
)

// judgement is one of the two things to do with a batch. It is called with the call's
// keys ready, and leaves in c.fresh what is new and in c.out what to answer.
type judgement struct {
	scope     string
	remembers bool
	judge     func(c *call, f *engine.Filter) (fresh int, err error)
	// answer appends the JSON answer to a whole list, lines that to a part of a stream.
	answer func(c *call, dst []byte, n int) []byte
	lines  func(dst []byte, l *items.List, fresh []bool, m media) []byte
}

func remembering() judgement {
	return judgement{scopeFilter, true, (*call).add, appendFilterResult, appendNewItems}
}

func looking() judgement {
	return judgement{scopeRead, false, (*call).look, appendCheckResult, appendVerdicts}
}

func (c *call) filter() error { return c.batch(remembering()) }
func (c *call) check() error  { return c.batch(looking()) }

// batch judges the items of the body, in whichever form it comes.
func (c *call) batch(j judgement) error {
	m, err := batchMedia(c.r)
	switch {
	case err != nil:
		return err
	case m == mediaText || m == mediaNDJSON:
		return c.stream(j, m)
	default:
		return c.list(j, m)
	}
}

// list judges a JSON body.
func (c *call) list(j judgement, m media) error {
	if err := c.decode(m); err != nil {
		return err
	}
	if !c.admitted {
		if err := c.admit(c.req.Token, j.scope); err != nil {
			return err
		}
	}
	f, err := c.s.engine.Lookup(c.req.Filter)
	if err != nil {
		return err
	}
	if c.expire, err = expiry(f, c.req.Expire, c.req.HasExpire, j.remembers); err != nil {
		return err
	}
	n, err := c.judge(j, f, &c.req.List)
	if err != nil {
		return err
	}
	c.out = j.answer(c, c.out[:0], n)
	c.tellOver(c.w.Header())
	return c.send(http.StatusOK, c.s.header.json, c.out)
}

func (c *call) decode(m media) error {
	text, err := c.readBody(c.s.limits.BodyBytes)
	if err != nil {
		return err
	}
	c.req.Reset()
	err = c.req.Decode(text, items.Limits{Items: c.s.limits.Items, ItemBytes: c.s.limits.ItemBytes})
	var bad *items.Error
	if m == mediaForm && errors.As(err, &bad) && bad.Code == items.MalformedJSON {
		bad.Detail += " (for one item a line send Content-Type: text/plain)"
	}
	return err
}

// expiry finds for how long the items that are new will be seen; 0 where the filter says so,
// or its kind forgets nothing. A call that does not remember needs none, but a wrong one
// is told.
func expiry(f *engine.Filter, seconds float64, given, remembers bool) (time.Duration, error) {
	_, timed := f.Set.(engine.Timed)
	switch {
	case !timed && given:
		return 0, &fault{code: codeExpireNotSupported, detail: "filter " + f.Name + " is of the kind " + f.Kind}
	case timed && given:
		expire, err := engine.Expire(seconds)
		if err != nil {
			return 0, &fault{code: items.ExpireInvalid, detail: err.Error()}
		}
		return expire, nil
	case timed && remembers && f.Expire == 0:
		return 0, &fault{code: codeExpireMissing, detail: "filter " + f.Name + " was made without one"}
	}
	return 0, nil
}

// judge hashes a list and judges it; c.fresh tells the outcome of each item. A filter that is
// cleared meanwhile is judged by as it is then: its keys are other ones.
func (c *call) judge(j judgement, f *engine.Filter, l *items.List) (fresh int, err error) {
	n := l.Len()
	c.fresh = slices.Grow(c.fresh[:0], n)[:n]
	for {
		c.keys = l.Keys(c.keys[:0], f.Seed())
		if fresh, err = j.judge(c, f); err == nil {
			added := 0
			if j.remembers {
				added = fresh
			}
			c.over, _ = f.OverCapacity(added)
			return fresh, nil
		}
		now, lookup := c.s.engine.Lookup(f.Name)
		var ended *engine.UnknownFilterError
		if now == f && errors.As(err, &ended) {
			now, lookup = c.s.engine.Successor(c.r.Context(), f, err)
		}
		switch {
		case now == f:
			return 0, err
		case lookup != nil || now.Life() != f.Life():
			return 0, gone(f, lookup)
		case !errors.As(err, &ended):
			return 0, err
		}
		f = now
	}
}

// gone is the error of a filter that was dropped while a request was in it; lookup is
// what looking it up again gives: nil where it was made anew.
func gone(f *engine.Filter, lookup error) error {
	if lookup != nil {
		return lookup
	}
	return &fault{code: codeUnknownFilter, detail: "filter " + f.Name + " was dropped while the request ran"}
}

func (c *call) add(f *engine.Filter) (fresh int, err error) {
	start := time.Now()
	fresh, err = f.Add(c.r.Context(), c.keys, c.expire, c.fresh)
	c.s.metrics.add.Observe(time.Since(start).Seconds())
	if err == nil {
		c.s.metrics.items.count(f, fresh, len(c.keys)-fresh)
	}
	return fresh, err
}

func (c *call) look(f *engine.Filter) (fresh int, err error) {
	start := time.Now()
	err = f.Has(c.r.Context(), c.keys, c.fresh)
	c.s.metrics.has.Observe(time.Since(start).Seconds())
	for _, is := range c.fresh {
		if is {
			fresh++
		}
	}
	return fresh, err
}

func appendFilterResult(c *call, dst []byte, n int) []byte {
	dst = append(dst, `{"uri_list":`...)
	dst = c.req.List.AppendFresh(dst, c.fresh)
	dst = append(dst, `,"total":`...)
	dst = strconv.AppendInt(dst, int64(len(c.fresh)), 10)
	dst = append(dst, `,"duplicates":`...)
	dst = strconv.AppendInt(dst, int64(len(c.fresh)-n), 10)
	return c.appendEnd(dst)
}

func appendCheckResult(c *call, dst []byte, _ int) []byte {
	dst = append(dst, `{"new":[`...)
	for i, is := range c.fresh {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendBool(dst, is)
	}
	return c.appendEnd(append(dst, ']'))
}

// appendEnd ends the answer to a list, with what there is to say beside it.
func (c *call) appendEnd(dst []byte) []byte {
	if c.over > 0 {
		dst = append(dst, `,"over_capacity":true,"fpr_estimate":`...)
		dst = strconv.AppendFloat(dst, c.over, 'g', 3, 64)
	}
	return append(dst, "}\n"...)
}

// headerOver tells, with the false-positive ratio, of a filter that is past its capacity.
const headerOver = "Urifilter-Over-Capacity"

func (c *call) tellOver(h http.Header) {
	if c.over > 0 {
		h.Set(headerOver, strconv.FormatFloat(c.over, 'g', 3, 64))
	}
}

func appendNewItems(dst []byte, l *items.List, fresh []bool, _ media) []byte {
	return l.AppendFreshLines(dst, fresh)
}

// appendVerdicts answers a line an item: new or seen, as NDJSON true or false.
func appendVerdicts(dst []byte, _ *items.List, fresh []bool, m media) []byte {
	yes, no := "new\n", "seen\n"
	if m == mediaNDJSON {
		yes, no = "true\n", "false\n"
	}
	for _, is := range fresh {
		if is {
			dst = append(dst, yes...)
		} else {
			dst = append(dst, no...)
		}
	}
	return dst
}
