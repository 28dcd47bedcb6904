package http

import (
	"bytes"
	"errors"
	"net/http"
	"strconv"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/batch"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/items"
	"github.com/cr-clawer/urifilter/daemon/internal/program/problemdetail"
)

// judgement is one of the operations on a batch.
type judgement struct {
	scope string
	op    batch.Op
	form  items.Form
	// answer appends the JSON answer to a whole list.
	answer func(c *call, dst []byte) []byte
	// lines appends the answer to a part of a stream; nil: only lists are accepted.
	lines func(dst []byte, l *items.List, isNew []bool, m media) []byte
	// bits: the answer to a list may be one of bits.
	bits bool
}

func remembering() judgement {
	return judgement{scopeFilter, batch.Add, items.Plain, appendFilterResult, appendNewItems, true}
}

func looking() judgement {
	return judgement{scopeRead, batch.Check, items.Plain, appendCheckResult, appendVerdicts, true}
}

func forgetting() judgement {
	return judgement{scopeForget, batch.Forget, items.Plain, appendForgetResult, nil, false}
}

func (c *call) filter() error { return c.batch(remembering()) }
func (c *call) check() error  { return c.batch(looking()) }
func (c *call) forget() error { return c.batch(forgetting()) }

// batch judges the items of the body, in any of its forms.
func (c *call) batch(j judgement) error {
	m, err := mediaOf(c.r)
	switch {
	case err != nil:
		return err
	case j.lines == nil && (m == mediaText || m == mediaNDJSON):
		return wantJSON(c.r)
	case m == mediaText || m == mediaNDJSON:
		return c.stream(j, m)
	}
	if err := c.takes(nil); err != nil {
		p := problemdetail.Of(err)
		p.Detail += ": in JSON it is a member; for one item a line send Content-Type: text/plain"
		return p
	}
	return c.list(j, m)
}

// list judges a JSON body.
func (c *call) list(j judgement, m media) error {
	if err := c.decode(m, j.form); err != nil {
		return err
	}
	if !c.admitted {
		if err := c.admit(c.req.Token, j.scope); err != nil {
			return err
		}
	}
	c.work.Terms = batch.Terms{Lease: c.req.Lease, Reservation: c.req.Reservation, All: c.req.NoList}
	if err := c.s.judge.Begin(c.r.Context(), &c.work, j.op, c.req.Filter, batch.Expire{Seconds: c.req.Expire, Given: c.req.HasExpire}); err != nil {
		return err
	}
	if err := c.s.judge.Apply(c.r.Context(), &c.work, &c.req.List); err != nil {
		return err
	}
	c.s.tallies.Skipped(c.work.Filter, c.req.List.Skipped())
	c.setOverCapacity(c.w.Header())
	if j.bits {
		c.w.Header()["Vary"] = c.s.header.accept
		if wantsBits(c.r.Header["Accept"]) {
			return c.sendBits()
		}
	}
	c.out = j.answer(c, c.out[:0])
	return c.sendOut(c.s.header.json)
}

func (c *call) decode(m media, form items.Form) error {
	text, err := c.readBody(int64(c.s.limits.BodyBytes))
	if err != nil {
		return err
	}
	err = c.req.DecodeAs(form, text, items.Limits{Items: c.s.limits.Items, ItemBytes: int(c.s.limits.ItemBytes)})
	var bad *items.Error
	if m == mediaForm && errors.As(err, &bad) && bad.Code == items.MalformedJSON {
		bad.Detail += " (for one item a line send Content-Type: text/plain)"
	}
	if err == nil && c.admitted && !c.hold(int64(c.req.List.Len())*batch.ItemBytes) {
		return c.overloaded()
	}
	return err
}

func appendFilterResult(c *call, dst []byte) []byte {
	dst = append(dst, `{"uri_list":`...)
	dst = c.req.List.AppendMarked(dst, c.work.IsNew)
	dst = append(dst, `,"total":`...)
	dst = strconv.AppendInt(dst, int64(len(c.work.IsNew)+c.req.List.Skipped()), 10)
	dst = append(dst, `,"duplicates":`...)
	dst = strconv.AppendInt(dst, int64(len(c.work.IsNew)-c.work.New), 10)
	return c.appendEnd(dst)
}

func appendForgetResult(c *call, dst []byte) []byte {
	dst = append(dst, `{"forgotten":`...)
	return c.appendEnd(strconv.AppendInt(dst, int64(c.work.Forgotten), 10))
}

func appendCheckResult(c *call, dst []byte) []byte {
	dst = append(dst, `{"new":[`...)
	holes := c.req.List.Holes()
	for i, is := range c.work.IsNew {
		dst, holes = appendHoles(dst, holes, i, "null,")
		dst = strconv.AppendBool(dst, is)
		dst = append(dst, ',')
	}
	dst, _ = appendHoles(dst, holes, len(c.work.IsNew), "null,")
	dst = bytes.TrimSuffix(dst, []byte{','})
	return c.appendEnd(append(dst, ']'))
}

// appendHoles appends text for each skipped item before item i, and returns the remaining
// holes.
func appendHoles(dst []byte, holes []uint32, i int, text string) ([]byte, []uint32) {
	for len(holes) > 0 && int(holes[0]) == i {
		dst, holes = append(dst, text...), holes[1:]
	}
	return dst, holes
}

// appendEnd ends the answer to a list, after any further members.
func (c *call) appendEnd(dst []byte) []byte {
	if c.req.Skip {
		dst = c.appendSkipped(dst)
	}
	if c.work.Over > 0 {
		dst = append(dst, `,"over_capacity":true,"fpr_estimate":`...)
		dst = strconv.AppendFloat(dst, c.work.Over, 'g', 3, 64)
	}
	return append(dst, "}\n"...)
}

// headerOver marks a filter beyond its capacity; its value is the false-positive ratio.
const headerOver = "Urifilter-Over-Capacity"

func (c *call) setOverCapacity(h http.Header) {
	if c.work.Over > 0 {
		h.Set(headerOver, strconv.FormatFloat(c.work.Over, 'g', 3, 64))
	}
}

func appendNewItems(dst []byte, l *items.List, isNew []bool, _ media) []byte {
	return l.AppendMarkedLines(dst, isNew)
}

// appendVerdicts answers one line per item: new or seen, in NDJSON true or false; for a skipped
// item invalid, in NDJSON null.
func appendVerdicts(dst []byte, l *items.List, isNew []bool, m media) []byte {
	yes, no, invalid := "new\n", "seen\n", "invalid\n"
	if m == mediaNDJSON {
		yes, no, invalid = "true\n", "false\n", "null\n"
	}
	holes := l.Holes()
	for i, is := range isNew {
		dst, holes = appendHoles(dst, holes, i, invalid)
		if is {
			dst = append(dst, yes...)
		} else {
			dst = append(dst, no...)
		}
	}
	dst, _ = appendHoles(dst, holes, len(isNew), invalid)
	return dst
}
