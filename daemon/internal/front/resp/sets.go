package resp

import (
	"errors"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/batch"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/items/scan"
)

// set are the terms of the commands of sets.
func set() terms { return terms{family: configs.CommandsSet} }

// isUnknown reports whether an error says that there is no such filter.
func isUnknown(err error) bool {
	return errors.As(err, new(*engine.UnknownFilterError))
}

// errAnswered is for a command that has its answer already.
var errAnswered = errors.New("answered")

// tryAdd judges items that are added. If there is no such filter it makes one with these
// parameters, unless they are nil.
func (c *conn) tryAdd(key []byte, at []scan.Span, how terms, with parameters) error {
	err := c.tryJudge(batch.Add, key, at, how)
	if with == nil || !isUnknown(err) {
		return err
	}
	if !c.create(string(key), how.family, with, true) {
		return errAnswered
	}
	return c.tryJudge(batch.Add, key, at, how)
}

// add is tryAdd for a set, and answers errors.
func (c *conn) add(key []byte, at []scan.Span) bool {
	err := c.tryAdd(key, at, set(), parameters{})
	if err != nil {
		c.error(err)
	}
	return err == nil
}

func sAddEach(c *conn, key []byte, at []scan.Span) {
	if c.add(key, at) {
		for _, is := range c.work.IsNew {
			c.wr.bit(is)
		}
	}
}

func sAdd(c *conn, args []scan.Span) {
	if c.add(c.rd.arg(args[0]), args[1:]) {
		c.wr.integer(int64(c.work.New))
	}
}

// seen answers for each item whether it was seen; a filter that does not exist has seen none.
func (c *conn) seen(key []byte, at []scan.Span, how terms, answer func(bool)) {
	switch err := c.tryJudge(batch.Check, key, at, how); {
	case isUnknown(err):
		for range at {
			answer(false)
		}
	case err != nil:
		c.error(err)
	default:
		for _, is := range c.work.IsNew {
			answer(!is)
		}
	}
}

func sIsMember(c *conn, key []byte, at []scan.Span) { c.seen(key, at, set(), c.wr.bit) }

func sMIsMember(c *conn, args []scan.Span) { c.seenAll(args, set(), c.wr.bit) }

// seenAll is seen with an array for the answer, which an error takes the place of.
func (c *conn) seenAll(args []scan.Span, how terms, answer func(bool)) {
	before := len(c.wr.out)
	c.wr.array(len(args) - 1)
	head := len(c.wr.out)
	if c.seen(c.rd.arg(args[0]), args[1:], how, answer); c.wr.code != "" {
		c.wr.out = append(c.wr.out[:before], c.wr.out[head:]...)
	}
}

func sRem(c *conn, args []scan.Span) {
	switch err := c.tryJudge(batch.Forget, c.rd.arg(args[0]), args[1:], set()); {
	case isUnknown(err):
		c.wr.integer(0)
	case err != nil:
		c.error(err)
	default:
		c.wr.integer(int64(c.work.Forgotten))
	}
}

func sCard(c *conn, args []scan.Span) { c.card(args[0], configs.CommandsSet) }

// card answers how many items a filter of a family has.
func (c *conn) card(key scan.Span, of string) {
	switch f, ok := c.filterOf(key); {
	case !ok:
	case f == nil:
		c.wr.integer(0)
	case c.family(f) != of:
		c.error(errWrongType)
	default:
		c.wr.count(f.Stats().Items)
	}
}
