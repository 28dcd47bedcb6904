package http

import (
	"encoding/binary"
	"encoding/hex"
	"strconv"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/batch"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/items"
)

// near compares documents. Remembering them needs a different scope than only comparing them. The
// body says which applies; until it is read, the lesser scope is required.
func (c *call) near() error {
	if err := wantJSON(c.r); err != nil {
		return err
	}
	text, err := c.readBody(int64(c.s.limits.BodyBytes))
	if err != nil {
		return err
	}
	var req items.NearRequest
	limits := items.NearLimits{Documents: c.s.limits.Items, TextBytes: int(c.s.limits.TextBytes), IDBytes: engine.MaxDocumentID}
	if err := req.Decode(text, limits); err != nil {
		return err
	}
	scope := scopeRead
	if req.Remember {
		scope = scopeFilter
	}
	switch {
	case !c.admitted:
		err = c.admit(req.Token, scope)
	case req.Remember && c.s.access.AsksTokens():
		_, err = c.authenticateHeader(scope)
	}
	if err != nil {
		return err
	}
	if !c.hold(int64(len(req.Documents)) * documentHeld) {
		return c.overloaded()
	}
	compared, err := c.s.judge.Near(c.r.Context(), &req, func(bytes int) bool { return c.hold(int64(bytes)) })
	if err != nil {
		return err
	}
	c.out = appendCompared(c.out[:0], compared)
	return c.sendOut(c.s.header.json)
}

// documentHeld is what a document takes beside the body and what is near it: its texts and its
// fingerprint, and what was found.
const documentHeld = 128

func appendCompared(dst []byte, c batch.Compared) []byte {
	dst = append(dst, `{"documents":[`...)
	for i, d := range c.Documents {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = items.AppendString(append(dst, `{"id":`...), d.ID)
		dst = append(dst, `,"fingerprint":"`...)
		dst = hex.AppendEncode(dst, binary.BigEndian.AppendUint64(nil, d.Fingerprint))
		dst = append(dst, `","new":`...)
		dst = strconv.AppendBool(dst, c.Found[i].New)
		dst = append(dst, `,"near":[`...)
		for j, n := range c.Found[i].Near {
			if j > 0 {
				dst = append(dst, ',')
			}
			dst = items.AppendString(append(dst, `{"id":`...), n.ID)
			dst = append(dst, `,"distance":`...)
			dst = append(strconv.AppendInt(dst, int64(n.Distance), 10), '}')
		}
		dst = append(dst, ']')
		if c.Found[i].More {
			dst = append(dst, `,"more":true`...)
		}
		dst = append(dst, '}')
	}
	return append(dst, "]}\n"...)
}
