package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cr-clawer/urifilter/client"
	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/items"
)

// specBytes bounds the body of a PUT.
const specBytes = 64 << 10

func (c *call) listFilters() error {
	list := client.FilterList{Filters: []client.FilterInfo{}}
	for _, f := range c.s.engine.Filters() {
		list.Filters = append(list.Filters, Describe(f))
	}
	for _, q := range c.s.engine.Quarantined() {
		reason, _, _ := strings.Cut(q.Cause.Error(), "\n")
		list.Quarantined = append(list.Quarantined, client.QuarantinedFilter{ID: q.ID, Name: q.Name, Reason: reason})
	}
	return c.sendJSON(http.StatusOK, list)
}

func (c *call) getFilter() error {
	f, err := c.s.engine.Lookup(c.name)
	if err != nil {
		return err
	}
	return c.sendJSON(http.StatusOK, Describe(f))
}

// putFilter makes a filter or finds it. What the body leaves out is that of the filter
// that is there, or else the daemon's default.
func (c *call) putFilter() error {
	asked, err := c.decodeSpec()
	if err != nil {
		return err
	}
	base := engine.Spec{Kind: asked.Kind}
	if f, err := c.s.engine.Lookup(c.name); err == nil && f.Name == c.name && or(asked.Kind, f.Kind) == f.Kind {
		base = f.Spec // another kind has nothing in common with it
	}
	base = base.Complete(c.s.defaults)
	expire, err := asked.expiry(base.Kind)
	if err != nil {
		return err
	}
	f, created, err := c.s.engine.Create(c.r.Context(), engine.Spec{
		ID:        or(asked.ID, base.ID),
		Name:      c.name,
		Kind:      base.Kind,
		Capacity:  or(asked.Capacity, base.Capacity),
		ErrorRate: or(asked.ErrorRate, base.ErrorRate),
		OnFull:    or(asked.OnFull, base.OnFull),
		Expire:    or(expire, base.Expire),
	})
	if err != nil {
		return err
	}
	if !created {
		return c.sendJSON(http.StatusOK, Describe(f))
	}
	c.w.Header().Set("Location", pathFilters+"/"+f.Name)
	return c.sendJSON(http.StatusCreated, Describe(f))
}

func or[T comparable](asked, otherwise T) T {
	var zero T
	if asked == zero {
		return otherwise
	}
	return asked
}

func (c *call) dropFilter() error {
	f, err := c.s.engine.Lookup(c.name)
	var bad *engine.QuarantinedError
	name, lost := "", "all items of the filter will be forgotten"
	switch {
	case errors.As(err, &bad):
		name, lost = bad.Name, "the filter's damaged data will be moved away"
	case err != nil:
		return err
	default:
		name = f.Name
	}
	c.name = name // it may be the id
	if err := c.confirmed(name, lost); err != nil {
		return err
	}
	if err := c.s.engine.Drop(c.r.Context(), name); err != nil {
		return err
	}
	return c.sendNothing()
}

// confirmed refuses a call that loses something and does not name the filter twice.
func (c *call) confirmed(name, lost string) error {
	if c.r.URL.Query().Get("confirm") != name {
		return &fault{code: codeConfirmRequired, detail: lost + "; if that is meant, add ?confirm=" + name}
	}
	return nil
}

// clearFilter forgets the items of a filter, which stays. Nobody who asks meanwhile is refused.
func (c *call) clearFilter() error {
	if err := c.queryOnly("confirm"); err != nil {
		return err
	}
	f, err := c.s.engine.Lookup(c.name)
	if err != nil {
		return err
	}
	c.name = f.Name // it may be the id
	if err := c.confirmed(f.Name, "all items of the filter will be forgotten"); err != nil {
		return err
	}
	if f, err = c.s.engine.Clear(c.r.Context(), f.Name); err != nil {
		return err
	}
	return c.sendJSON(http.StatusOK, Describe(f))
}

// Describe is what callers see of a filter.
func Describe(f *engine.Filter) client.FilterInfo {
	st := f.Stats()
	if _, bits := f.Set.(engine.BitMap); !bits {
		return client.FilterInfo{
			ID: f.ID, Name: f.Name, Kind: f.Kind, Expire: f.Expire.Seconds(), Items: st.Items, Bytes: st.Bytes, Generation: st.Generation,
		}
	}
	info := client.FilterInfo{
		ID:            f.ID,
		Name:          f.Name,
		Kind:          f.Kind,
		Capacity:      f.Capacity,
		ErrorRate:     f.ErrorRate,
		OnFull:        f.OnFull,
		ItemsEstimate: st.Items,
		FillRatio:     st.Fill,
		FPREstimate:   st.FPR,
		Bytes:         st.Bytes,
		Generation:    st.Generation,
	}
	if !st.LastWriteback.IsZero() {
		info.LastWriteback = &st.LastWriteback
	}
	return info
}

func (c *call) sendJSON(status int, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return c.send(status, c.s.header.json, append(body, '\n'))
}

// askedSpec is the body of a PUT.
type askedSpec struct {
	client.FilterSpec
	expire json.RawMessage // as it was sent; nil: it was not
}

// expiry is what was asked for; 0: nothing.
func (a *askedSpec) expiry(kind string) (time.Duration, error) {
	if a.expire == nil || string(a.expire) == "null" {
		return 0, nil
	}
	if _, known := configs.KindOf(kind); known && !configs.Expires(kind) {
		return 0, &fault{code: codeExpireNotSupported, detail: "expire is for filters of the kind timing"}
	}
	seconds, err := items.Seconds(string(a.expire))
	if err != nil {
		return 0, err
	}
	expire, err := engine.Expire(seconds)
	if err != nil {
		return 0, &fault{code: items.ExpireInvalid, detail: err.Error()}
	}
	return expire, nil
}

// decodeSpec reads the body of a PUT strictly. An empty one asks for nothing special.
func (c *call) decodeSpec() (askedSpec, error) {
	var spec askedSpec
	if err := wantJSON(c.r); err != nil {
		return spec, err
	}
	text, err := c.readBody(min(specBytes, c.s.limits.BodyBytes))
	if err != nil || len(bytes.TrimSpace(text)) == 0 {
		return spec, err
	}
	return spec, decodeObject(text, map[string]member{
		"id":         {&spec.ID, "a whole number, such as 1001"},
		"kind":       {&spec.Kind, `a text, such as "bloom"`},
		"capacity":   {&spec.Capacity, "a whole number of items, such as 10000000"},
		"error_rate": {&spec.ErrorRate, "a number, such as 0.0001"},
		"on_full":    {&spec.OnFull, `a text, such as "warn"`},
		"expire":     {&spec.expire, "a number of seconds, such as 86400"},
	})
}

// member is where a member of an object goes, and what a caller is told to send.
type member struct {
	to   any
	want string
}

// found says in plain words what encoding/json calls the value of a member.
func found(value string) string {
	switch value {
	case "string":
		return "a text"
	case "bool":
		return "true or false"
	case "array":
		return "a list"
	case "object":
		return "an object"
	}
	return strings.TrimPrefix(value, "number ")
}

// decodeObject decodes a JSON object whose members are those of into, each at most
// once: what encoding/json would let pass would be a typing error that nobody sees.
func decodeObject(text []byte, into map[string]member) error {
	d := json.NewDecoder(bytes.NewReader(text))
	bad := func(code, detail string) error {
		offset := d.InputOffset()
		return &fault{code: code, detail: detail, offset: &offset}
	}
	if start, err := d.Token(); err != nil {
		return bad(items.MalformedJSON, err.Error())
	} else if start != json.Delim('{') {
		return bad(items.WrongType, "want an object")
	}
	seen := map[string]bool{}
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return bad(items.MalformedJSON, err.Error())
		}
		name := token.(string) // or Token had refused it
		to, ok := into[name]
		switch {
		case !ok:
			return unknownField(name, into)
		case seen[name]:
			return bad(items.DuplicateField, name)
		}
		seen[name] = true
		var mismatch *json.UnmarshalTypeError
		switch err := d.Decode(to.to); {
		case errors.As(err, &mismatch):
			return bad(items.WrongType, name+": "+found(mismatch.Value)+": want "+to.want)
		case err != nil:
			return bad(items.MalformedJSON, err.Error())
		}
	}
	if _, err := d.Token(); err != nil {
		return bad(items.MalformedJSON, err.Error())
	}
	if _, err := d.Token(); err != io.EOF {
		return bad(items.MalformedJSON, "something follows the object")
	}
	return nil
}

func unknownField(name string, into map[string]member) error {
	var known []string
	for k := range into {
		known = append(known, k)
	}
	slices.Sort(known)
	return &fault{code: items.UnknownField, detail: strconv.Quote(name), known: known}
}
