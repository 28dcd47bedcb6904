package http

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/cr-clawer/urifilter/client"
	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/items"
	"github.com/cr-clawer/urifilter/daemon/internal/front/http/filterjson"
	"github.com/cr-clawer/urifilter/daemon/internal/front/problem"
)

// A list of digests is text: a head, which is a JSON object with the version of the form, the
// filter's kind, parameters and secret, and then a line for each digest: 32 hexadecimal digits, or
// 16 if the filter keeps 64 bits, and, if its item expires, a blank and when, in milliseconds since
// 1970. The file of `urifilter export` ends in a line of its own, see the command.
const (
	digestsVersion = 1
	digestLine     = 32 + 1 + 13 + 1 // bytes, at most for the next 260 years
)

// digestsHead is what the head has besides the filter's parameters.
type digestsHead struct {
	Version *int   `json:"digests_format"`
	Filter  string `json:"filter"` // from which it was made
	Secret  string `json:"secret"`
}

func appendDigestsHead(dst []byte, f *engine.Filter) ([]byte, error) {
	secret := hex.EncodeToString(binary.BigEndian.AppendUint64(nil, f.Seed()))
	all := append([]configs.Member{{Key: "digests_format", Value: digestsVersion}, {Key: "filter", Value: f.Name}, {Key: "secret", Value: secret},
		{Key: "kind", Value: f.Kind}}, f.Members()...)
	dst, err := configs.AppendObject(dst, all)
	return append(dst, '\n'), err
}

// exportDigests answers one part of the digests of a filter.
func (c *call) exportDigests() error {
	if err := c.readAway(); err != nil {
		return err
	}
	part, err := strconv.Atoi(c.r.URL.Query().Get("part"))
	if err != nil || part < 0 || part >= engine.DigestParts {
		return &problem.Error{Code: problem.InvalidParameter, Detail: fmt.Sprintf("part: want a number from 0 to %d", engine.DigestParts-1)}
	}
	f, err := c.s.engine.Find(c.r.Context(), c.name)
	if err != nil {
		return err
	}
	c.name = f.Name // it may be the id
	list, err := f.Listed()
	if err != nil {
		return err
	}
	expected := engine.PartDigests(f.Stats().Items)
	if !c.hold(int64(expected) * (digestLine + 2*24)) { // in three forms
		return c.overloaded()
	}
	digests, err := list.Digests(part, make([]engine.Digest, 0, expected))
	if err != nil {
		return err
	}
	now := time.Now()
	out, err := appendDigestsHead(make([]byte, 0, expected*digestLine), f)
	if err != nil {
		return err
	}
	for _, d := range digests {
		key := d.Key.Bytes()
		out = hex.AppendEncode(out, key[:f.DigestBits()/8])
		if d.Left > 0 {
			out = strconv.AppendInt(append(out, ' '), now.Add(d.Left).UnixMilli(), 10)
		}
		out = append(out, '\n')
	}
	return c.send(http.StatusOK, c.s.header.text, out)
}

// importDigests makes the digests of a list seen. A filter that is not there is made as its head says.
func (c *call) importDigests() error {
	switch kind, err := mediaOf(c.r); {
	case err != nil:
		return err
	case kind != mediaText:
		return &problem.Error{Code: problem.UnsupportedMedia, Detail: "want text/plain, a list as GET answers it"}
	}
	text, err := c.readBody(int64(c.s.limits.BodyBytes))
	if err != nil {
		return err
	}
	head, lines, _ := bytes.Cut(text, []byte{'\n'})
	spec, seed, err := c.parseDigestsHead(head)
	if err != nil {
		return err
	}
	width := spec.DigestBits() / 8
	limit := len(lines)/(2*width+1) + 1 // of the shortest lines
	if !c.hold(int64(limit) * engine.TakenBytes) {
		return c.overloaded()
	}
	digests, expired, err := parseDigests(make([]engine.Digest, 0, limit), lines, width, time.Now())
	if err != nil {
		return err
	}
	f, err := c.s.engine.Find(c.r.Context(), c.name)
	if errors.As(err, new(*engine.UnknownFilterError)) {
		f, _, err = c.s.engine.CreateWith(c.r.Context(), spec, seed)
	}
	if err == nil {
		c.name = f.Name // it may be the id
		err = f.TakesDigestsOf(spec, seed)
	}
	if err != nil {
		return err
	}
	n, err := f.TakeDigests(c.r.Context(), digests)
	if err != nil {
		return err
	}
	return c.sendJSON(client.DigestsResult{Total: len(digests) + expired, New: n, Expired: expired})
}

// parseDigestsHead returns what the filter of a list was made with.
func (c *call) parseDigestsHead(text []byte) (spec engine.Spec, seed uint64, err error) {
	bad := func(detail string) (engine.Spec, uint64, error) {
		return spec, 0, &problem.Error{Code: items.MalformedJSON, Detail: "head of a list of digests: " + detail}
	}
	var head digestsHead
	var all map[string]json.RawMessage
	if err := errors.Join(json.Unmarshal(text, &head), json.Unmarshal(text, &all)); err != nil {
		return bad("want the first line of `urifilter export`")
	}
	secret, err := hex.DecodeString(head.Secret)
	switch {
	case head.Version == nil || *head.Version != digestsVersion:
		return bad(fmt.Sprintf("want digests_format: %d", digestsVersion))
	case err != nil || len(secret) != 8:
		return bad("secret: want 16 hexadecimal digits")
	}
	for _, own := range []string{"digests_format", "filter", "secret"} {
		delete(all, own)
	}
	rest, err := json.Marshal(all)
	if err != nil {
		return spec, 0, err
	}
	asked, err := filterjson.Decode(rest)
	if err != nil {
		return spec, 0, err
	}
	spec, err = asked.Spec(c.name, nil, c.s.defaults)
	return spec, binary.BigEndian.Uint64(secret), err
}

// parseDigests appends the digests of the lines after the head, of width bytes each. Those that have
// expired are only counted.
func parseDigests(digests []engine.Digest, lines []byte, width int, now time.Time) (_ []engine.Digest, expired int, err error) {
	for i := 0; len(lines) > 0; i++ {
		var line []byte
		line, lines, _ = bytes.Cut(lines, []byte{'\n'})
		digits, until, expires := bytes.Cut(line, []byte{' '})
		var key [16]byte
		var at int64
		n, err := 0, error(nil)
		if len(digits) == 2*width {
			n, err = hex.Decode(key[:], digits)
		}
		if err == nil && expires {
			at, err = strconv.ParseInt(string(until), 10, 64)
		}
		if err != nil || n != width {
			return nil, 0, &items.Error{Code: items.InvalidItem, Index: i, Offset: -1, Detail: fmt.Sprintf("want %d hexadecimal digits and, for an item that expires, a blank and milliseconds since 1970", 2*width)}
		}
		d := engine.Digest{Key: bloom.Hash{Hi: binary.BigEndian.Uint64(key[:]), Lo: binary.BigEndian.Uint64(key[8:])}}
		if expires {
			if at <= now.UnixMilli() {
				expired++
				continue
			}
			d.Left = time.Duration(min(at-now.UnixMilli(), configs.MaxExpire.Milliseconds())) * time.Millisecond
		}
		digests = append(digests, d)
	}
	return digests, expired, nil
}

// mergeFilter makes the items of another filter seen in this one.
func (c *call) mergeFilter() error {
	if err := c.readAway(); err != nil {
		return err
	}
	from := c.r.URL.Query().Get("from")
	if from == "" {
		return &problem.Error{Code: problem.MissingParameter, Detail: "want ?from= and the name of the filter whose items this one is to have"}
	}
	if source, err := c.s.engine.Find(c.r.Context(), from); err == nil { // otherwise Merge says so
		need := int64(engine.PartDigests(source.Stats().Items)) * engine.TakenBytes
		if _, bits := source.Set.(engine.BitMap); bits {
			need = 2 * bloom.StripeBytes
		}
		if !c.hold(need) {
			return c.overloaded()
		}
	}
	f, err := c.s.engine.Merge(c.r.Context(), from, c.name)
	if err != nil {
		return err
	}
	c.name = f.Name // it may be the id
	return c.sendFilter(http.StatusOK, f)
}
