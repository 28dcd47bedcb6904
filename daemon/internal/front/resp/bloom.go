package resp

import (
	"errors"
	"fmt"
	"reflect"
	"strconv"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/batch"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/items/scan"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/kinds/scaling"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/mapped"
	"github.com/cr-clawer/urifilter/daemon/internal/front/problem"
)

// What RedisBloom makes a filter with that a command does not say.
const (
	madeRate      = 0.01
	madeCapacity  = 100
	madeExpansion = 2
	// Beyond it a rate is cut to it.
	highestRate     = 0.25
	largestCapacity = 1 << 30
	largestFactor   = 32768
)

// parameters are those of a filter that a command makes, by their keys.
type parameters map[string]reflect.Value

func bf() terms { return terms{family: configs.CommandsBF} }

func bfParameters() parameters {
	return parameters{"capacity": reflect.ValueOf(uint64(madeCapacity)), "error_rate": reflect.ValueOf(madeRate), "expansion": reflect.ValueOf(uint64(madeExpansion))}
}

// create makes a filter of the kind that a family of commands makes. If exists is false, one
// that is there already is an error. It answers if it fails.
func (c *conn) create(name, family string, with parameters, exists bool) bool {
	if !c.may(scopeAdmin) {
		return false
	}
	_, created, err := c.s.opt.Engine.Create(c.s.ctx, c.spec(name, family, with))
	switch {
	case errors.Is(err, engine.ErrConflict) && exists:
		return true // another caller was faster, with other parameters
	case errors.Is(err, engine.ErrConflict), err == nil && !created && !exists:
		c.wr.fail("ERR item exists")
		return false
	case err != nil:
		c.error(err)
		return false
	}
	c.s.opt.Log.Info("admin action", "action", "create", "filter", name, "protocol", "resp", "remote", c.raw.RemoteAddr().String(), "outcome", "done")
	return true
}

func (c *conn) spec(name, family string, with parameters) engine.Spec {
	spec := engine.Spec{Name: name}
	for _, k := range configs.Kinds() {
		if k.Commands == family && k.MadeByCommands {
			spec.Kind = k.Name
		}
	}
	made, _ := spec.With(with)
	return made.Complete(c.s.opt.Defaults)
}

// rate parses an error rate; a text says what is wrong.
func rate(text string) (r reflect.Value, wrong string) {
	f, err := strconv.ParseFloat(text, 64)
	switch {
	case err != nil:
		return r, "ERR bad error rate"
	case !(f > 0 && f < 1):
		return r, "ERR error rate must be in the range (0.000000, 1.000000)"
	}
	return reflect.ValueOf(min(f, highestRate)), ""
}

func whole(text string, limit uint64, bad, beyond string) (n reflect.Value, wrong string) {
	i, err := strconv.ParseUint(text, 10, 64)
	switch {
	case err != nil:
		return n, bad
	case i < 1 || i > limit:
		return n, beyond
	}
	return reflect.ValueOf(i), ""
}

func capacity(text string) (reflect.Value, string) {
	return whole(text, largestCapacity, "ERR bad capacity", "ERR capacity must be in the range [1, 1073741824]")
}

func expansion(text string) (reflect.Value, string) {
	return whole(text, largestFactor, "ERR bad expansion", "ERR expansion must be in the range [0, 32768]")
}

func bfReserve(c *conn, args []scan.Span) {
	with := parameters{}
	fixed, expands := false, false
	for i, read := range []func(string) (reflect.Value, string){rate, capacity} {
		v, wrong := read(c.str(args[1+i]))
		if wrong != "" {
			c.wr.fail(wrong)
			return
		}
		with[[]string{"error_rate", "capacity"}[i]] = v
	}
	for rest := args[3:]; len(rest) > 0; {
		switch {
		case c.word(rest[0], "NONSCALING"):
			fixed, rest = true, rest[1:]
		case c.word(rest[0], "EXPANSION") && len(rest) == 1:
			c.wr.fail("ERR no expansion")
			return
		case c.word(rest[0], "EXPANSION") && c.str(rest[1]) == "0": // RedisBloom's other word for it
			fixed, rest = true, rest[2:]
		case c.word(rest[0], "EXPANSION"):
			v, wrong := expansion(c.str(rest[1]))
			if wrong != "" {
				c.wr.fail(wrong)
				return
			}
			with["expansion"], expands, rest = v, true, rest[2:]
		default:
			c.wr.fail("ERR wrong number of arguments for 'bf.reserve' command")
			return
		}
	}
	if fixed && expands {
		c.wr.fail("Nonscaling filters cannot expand")
		return
	}
	if fixed {
		with["on_full"] = reflect.ValueOf("reject")
	}
	if c.create(c.str(args[0]), configs.CommandsBF, with, false) {
		c.wr.ok()
	}
}

const fullText = "ERR non scaling filter is full"

func bfAdd(c *conn, key []byte, at []scan.Span) {
	switch err := c.tryAdd(key, at, bf(), bfParameters()); {
	case errors.Is(err, engine.ErrFull):
		c.wr.fail(fullText)
	case err != nil:
		c.error(err)
	default:
		for _, is := range c.work.IsNew {
			c.wr.bool(is)
		}
	}
}

func bfMAdd(c *conn, args []scan.Span) {
	c.bfAddAll(c.rd.arg(args[0]), args[1:], bfParameters())
}

// bfAddAll adds items, and answers an array. If the filter is too full for all of them, they are
// added one by one, and the array ends with the error of the first that is refused.
func (c *conn) bfAddAll(key []byte, at []scan.Span, with parameters) {
	switch err := c.tryAdd(key, at, bf(), with); {
	case err == nil:
		c.wr.array(len(at))
		for _, is := range c.work.IsNew {
			c.wr.bool(is)
		}
	case isUnknown(err):
		c.wr.fail("ERR not found")
	case errors.Is(err, engine.ErrFull) && len(at) > 0:
		c.bfAddUntilFull(key, at)
	default:
		c.error(err)
	}
}

func (c *conn) bfAddUntilFull(key []byte, at []scan.Span) {
	var fresh []bool
	var err error
	for i := range at {
		if err = c.tryJudge(batch.Add, key, at[i:i+1], bf()); err != nil {
			break
		}
		fresh = append(fresh, c.work.IsNew[0])
	}
	n := len(fresh)
	if err != nil {
		n++
	}
	c.wr.array(n)
	for _, is := range fresh {
		c.wr.bool(is)
	}
	switch {
	case errors.Is(err, engine.ErrFull):
		c.wr.fail(fullText)
	case err != nil:
		c.error(err)
	}
}

func bfInsert(c *conn, args []scan.Span) {
	with := bfParameters()
	create, fixed, expands := true, false, false
	rest := args[1:]
	for ; len(rest) > 0 && !c.word(rest[0], "ITEMS"); rest = rest[1:] {
		switch {
		case c.word(rest[0], "NOCREATE"):
			create = false
			continue
		case c.word(rest[0], "NONSCALING"):
			fixed = true
			continue
		case len(rest) < 2 || !c.word(rest[0], "CAPACITY", "ERROR", "EXPANSION"):
			c.wr.fail("Unknown argument received")
			return
		}
		name, read := "capacity", capacity
		bad := "Bad capacity"
		switch {
		case c.word(rest[0], "ERROR"):
			name, read, bad = "error_rate", rate, "Bad error rate"
		case c.word(rest[0], "EXPANSION"):
			name, read, bad, expands = "expansion", expansion, "Bad expansion", true
		}
		v, wrong := read(c.str(rest[1]))
		if wrong != "" {
			c.wr.fail(bad)
			return
		}
		with[name], rest = v, rest[1:]
	}
	switch {
	case len(rest) < 2:
		c.wr.fail("ERR wrong number of arguments for 'bf.insert' command")
		return
	case fixed && expands:
		c.wr.fail("Nonscaling filters cannot expand")
		return
	case fixed:
		with["on_full"] = reflect.ValueOf("reject")
	}
	if !create {
		with = nil
	}
	c.bfAddAll(c.rd.arg(args[0]), rest[1:], with)
}

func bfExists(c *conn, key []byte, at []scan.Span) { c.seen(key, at, bf(), c.wr.bool) }
func bfMExists(c *conn, args []scan.Span)          { c.seenAll(args, bf(), c.wr.bool) }
func bfCard(c *conn, args []scan.Span)             { c.card(args[0], configs.CommandsBF) }

// bfOf finds a filter for BF.*, and answers if there is none.
func (c *conn) bfOf(a scan.Span) *engine.Filter {
	f, ok := c.filterOf(a)
	switch {
	case !ok:
		return nil
	case f == nil:
		c.wr.fail("ERR not found")
		return nil
	case c.family(f) != configs.CommandsBF:
		c.error(errWrongType)
		return nil
	}
	return f
}

func bfInfo(c *conn, args []scan.Span) {
	f := c.bfOf(args[0])
	if f == nil {
		return
	}
	d := describeBF(f)
	fields := []struct {
		word, name string
		value      uint64
	}{
		{"CAPACITY", "Capacity", d.Capacity}, {"SIZE", "Size", d.Bytes}, {"FILTERS", "Number of filters", uint64(d.Layers)},
		{"ITEMS", "Number of items inserted", d.Items}, {"EXPANSION", "Expansion rate", d.Expansion},
	}
	value := func(word string, n uint64) {
		if word == "EXPANSION" && n == 0 {
			c.wr.null()
			return
		}
		c.wr.count(n)
	}
	if len(args) == 1 {
		c.wr.dict(len(fields))
		for _, field := range fields {
			c.wr.simple(field.name)
			value(field.word, field.value)
		}
		return
	}
	for _, field := range fields {
		if len(args) == 2 && c.word(args[1], field.word) {
			if c.wr.proto == 3 {
				c.wr.dict(1)
				c.wr.simple(field.name)
			} else {
				c.wr.array(1)
			}
			value(field.word, field.value)
			return
		}
	}
	c.wr.fail("Invalid information value")
}

// describeBF describes any filter that answers to BF.*: a bit-map of this daemon's own layout has
// an estimate for its items, and grows by factors of its own.
func describeBF(f *engine.Filter) engine.ScalingLayers {
	if set, ok := f.Set.(engine.Dumped); ok {
		return set.Layers()
	}
	st, bound := f.Stats(), f.Bound()
	d := engine.ScalingLayers{Layers: 1, Items: st.Items, Capacity: bound.Items, Bytes: st.Bytes}
	if layered, ok := f.Set.(engine.Layered); ok {
		d.Capacity, d.Expansion = 0, madeExpansion
		layers := layered.Layers()
		d.Layers = len(layers)
		for _, l := range layers {
			d.Capacity += l.Header.Capacity
		}
	}
	return d
}

// dumped finds a filter that has dumps.
func (c *conn) dumped(a scan.Span) (engine.Dumped, bool) {
	f := c.bfOf(a)
	if f == nil {
		return nil, false
	}
	set, ok := f.Set.(engine.Dumped)
	if !ok {
		c.wr.fail(fmt.Sprintf("ERR filter %s is of the kind %s, which has no form that RedisBloom knows; only filters that BF.RESERVE makes have", f.Name, f.Kind))
	}
	return set, ok
}

func bfScanDump(c *conn, args []scan.Span) {
	iterator, err := strconv.ParseInt(c.str(args[1]), 10, 64)
	if err != nil {
		c.wr.fail("Second argument must be numeric")
		return
	}
	set, ok := c.dumped(args[0])
	if !ok {
		return
	}
	next, data, ok := set.Chunk(iterator)
	if !ok {
		c.wr.fail("ERR invalid iterator")
		return
	}
	if !c.holdOut(len(data)) {
		c.error(&problem.Error{Code: problem.Overloaded, Detail: "too much waits to be sent at once (limits.held_bytes)"})
		return
	}
	c.wr.array(2)
	c.wr.integer(next)
	c.wr.bulk(data)
}

// loading is a dump of which not all parts have come.
type loading struct {
	head   []byte
	params configs.Scaling
	bits   []byte
	have   uint64 // of bits
	held   int64  // of the budget
}

// bfLoadChunk takes the parts of a dump. The filter appears when all have come, and then as a
// whole. The parts of one dump come by one connection, which forgets them when it ends.
func bfLoadChunk(c *conn, args []scan.Span) {
	name, data := c.str(args[0]), c.rd.arg(args[2])
	iterator, err := strconv.ParseInt(c.str(args[1]), 10, 64)
	if err != nil {
		c.wr.fail("ERR Second argument must be numeric")
		return
	}
	if text := configs.CheckName(name); text != "" {
		c.wr.fail("ERR name: " + text)
		return
	}
	if iterator == 1 {
		c.beginLoading(name, data)
		return
	}
	l := c.loads[name]
	if l == nil {
		if _, err := c.s.opt.Engine.Find(c.s.ctx, name); isUnknown(err) {
			c.wr.fail("ERR not found")
			return
		}
	}
	at := iterator - int64(len(data)) - 1
	if l == nil || len(data) == 0 || at < 0 || uint64(at) != l.have || uint64(len(data)) > uint64(len(l.bits))-l.have {
		c.wr.fail("ERR received bad data")
		return
	}
	copy(l.bits[at:], data)
	if l.have += uint64(len(data)); l.have < uint64(len(l.bits)) {
		c.wr.ok()
		return
	}
	defer c.endLoading(name)
	spec := engine.Spec{Name: name, Kind: c.spec(name, configs.CommandsBF, nil).Kind, Params: l.params.Complete(c.s.opt.Defaults)}
	switch err := c.s.opt.Engine.CreateLoaded(c.s.ctx, spec, engine.Dump{Head: l.head, Bits: l.bits}); {
	case errors.Is(err, engine.ErrConflict): // another caller was faster
		c.wr.fail("ERR item exists")
	case err != nil:
		c.error(err)
	default:
		c.wr.ok()
	}
}

func (c *conn) beginLoading(name string, head []byte) {
	c.endLoading(name)
	params, size, err := scaling.Shape(head)
	if err != nil {
		c.wr.fail("ERR received bad data")
		return
	}
	if _, err := c.s.opt.Engine.Find(c.s.ctx, name); !isUnknown(err) {
		c.wr.fail("ERR item exists")
		return
	}
	held := int64(size) + int64(len(head))
	if size > mapped.Machine() && mapped.Machine() > 0 || !c.hold(held) {
		c.error(&problem.Error{Code: problem.Overloaded, Detail: fmt.Sprintf("the filter takes %d bytes, and calls may not hold so much at once: raise limits.held_bytes for the time of loading", size)})
		return
	}
	c.loads[name] = &loading{head: append([]byte(nil), head...), params: params, bits: make([]byte, size), held: held}
	c.wr.ok()
}

func (c *conn) endLoading(name string) {
	if l := c.loads[name]; l != nil {
		c.give(l.held)
		delete(c.loads, name)
	}
}
