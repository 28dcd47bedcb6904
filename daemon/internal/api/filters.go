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

	"github.com/cr-clawer/urifilter/client"
	"github.com/cr-clawer/urifilter/daemon/internal/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/items"
	"github.com/cr-clawer/urifilter/daemon/internal/problem"
)

func (c *call) listFilters() error {
	list := struct {
		Filters     []json.RawMessage          `json:"filters"`
		Quarantined []client.QuarantinedFilter `json:"quarantined,omitempty"`
	}{Filters: []json.RawMessage{}}
	for _, f := range c.s.engine.Filters() {
		text, err := describe(f)
		if err != nil {
			return err
		}
		list.Filters = append(list.Filters, text)
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
	return c.sendFilter(http.StatusOK, f)
}

// putFilter makes a filter or finds it. What the body leaves out is that of the filter
// that is there, or else the daemon's default.
func (c *call) putFilter() error {
	asked, err := c.decodeSpec()
	if err != nil {
		return err
	}
	spec := engine.Spec{Name: c.name, Kind: asked.kind}
	if f, err := c.s.engine.Lookup(c.name); err == nil && f.Name == c.name && (asked.kind == "" || asked.kind == f.Kind) {
		spec = f.Spec // another kind has nothing in common with it
	}
	spec = spec.Complete(c.s.defaults)
	if asked.id != 0 {
		spec.ID = asked.id
	}
	values, err := asked.values(spec.Kind)
	if err != nil {
		return err
	}
	spec, stray := spec.With(values)
	if stray != nil {
		return stray
	}
	spec = spec.Complete(c.s.defaults) // what is left out may depend on what was given
	f, created, err := c.s.engine.Create(c.r.Context(), spec)
	if err != nil {
		return err
	}
	if !created {
		return c.sendFilter(http.StatusOK, f)
	}
	c.w.Header().Set("Location", pathFilters+"/"+f.Name)
	return c.sendFilter(http.StatusCreated, f)
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
		return &problem.Error{Code: problem.ConfirmRequired, Detail: lost + "; if that is meant, add ?confirm=" + name}
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
	return c.sendFilter(http.StatusOK, f)
}

func (c *call) sendJSON(status int, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return c.send(status, c.s.header.json, append(body, '\n'))
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
		return &problem.Error{Code: code, Detail: detail, Offset: &offset}
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
	return &problem.Error{Code: items.UnknownField, Detail: strconv.Quote(name), Known: known}
}
