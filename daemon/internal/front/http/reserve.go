package http

import (
	"strconv"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/batch"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/items"
)

func (c *call) reserve() error {
	return c.batch(judgement{scopeFilter, batch.Reserve, items.Reserve, appendReserveResult, nil, false})
}

func (c *call) commit() error {
	return c.batch(judgement{scopeFilter, batch.Commit, items.Settle, appendSettleResult, nil, false})
}

func (c *call) releaseItems() error {
	return c.batch(judgement{scopeFilter, batch.Release, items.Settle, appendSettleResult, nil, false})
}

func appendReserveResult(c *call, dst []byte) []byte {
	dst = append(dst, `{"uri_list":`...)
	dst = c.req.List.AppendMarked(dst, c.work.IsNew)
	dst = append(dst, `,"reservation":"`...)
	dst = append(dst, c.work.Terms.Reservation...)
	dst = append(dst, `","total":`...)
	dst = strconv.AppendInt(dst, int64(len(c.work.IsNew)+c.req.List.Skipped()), 10)
	dst = append(dst, `,"duplicates":`...)
	dst = strconv.AppendInt(dst, int64(len(c.work.IsNew)-c.work.New-c.work.Held), 10)
	dst = append(dst, `,"reserved":`...)
	dst = strconv.AppendInt(dst, int64(c.work.Held), 10)
	return c.appendEnd(dst)
}

func appendSettleResult(c *call, dst []byte) []byte {
	dst = append(dst, `{"done":`...)
	dst = strconv.AppendInt(dst, int64(c.work.Committed+c.work.Released), 10)
	dst = append(dst, `,"lost":`...)
	dst = c.req.List.AppendMarked(dst, c.work.IsLost)
	dst = append(dst, `,"lost_total":`...)
	dst = strconv.AppendInt(dst, int64(c.work.Lost), 10)
	return c.appendEnd(dst)
}
