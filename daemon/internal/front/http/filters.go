package http

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"github.com/cr-clawer/urifilter/client"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/front/http/filterjson"
	"github.com/cr-clawer/urifilter/daemon/internal/front/problem"
)

func (c *call) listFilters() error {
	list := struct {
		Filters     []json.RawMessage          `json:"filters"`
		Quarantined []client.QuarantinedFilter `json:"quarantined,omitempty"`
	}{Filters: []json.RawMessage{}}
	for _, f := range c.s.engine.Filters() {
		text, err := filterjson.Text(f)
		if err != nil {
			return err
		}
		list.Filters = append(list.Filters, text)
	}
	for _, q := range c.s.engine.Quarantined() {
		reason, _, _ := strings.Cut(q.Cause.Error(), "\n")
		list.Quarantined = append(list.Quarantined, client.QuarantinedFilter{ID: q.ID, Name: q.Name, Reason: reason})
	}
	return c.sendJSON(list)
}

func (c *call) getFilter() error {
	f, err := c.s.engine.Find(c.r.Context(), c.name)
	if err != nil {
		return err
	}
	return c.sendFilter(http.StatusOK, f)
}

// specBytes bounds the body of a PUT.
const specBytes = 64 << 10

// putFilter makes a filter or finds it.
func (c *call) putFilter() error {
	if err := wantJSON(c.r); err != nil {
		return err
	}
	text, err := c.readBody(min(specBytes, int64(c.s.limits.BodyBytes)))
	if err != nil {
		return err
	}
	asked, err := filterjson.Decode(text)
	if err != nil {
		return err
	}
	there, err := c.s.engine.Find(c.r.Context(), c.name)
	if err != nil || there.Name != c.name { // it may be the id of another filter
		there = nil
	}
	create := c.s.engine.Create
	if asked.Like != "" {
		like, err := c.s.engine.Find(c.r.Context(), asked.Like)
		if err != nil {
			return err
		}
		if there == nil {
			there = like
		}
		create = func(ctx context.Context, spec engine.Spec) (*engine.Filter, bool, error) {
			return c.s.engine.CreateLike(ctx, spec, like)
		}
	}
	spec, err := asked.Spec(c.name, there, c.s.defaults)
	if err != nil {
		return err
	}
	f, created, err := create(c.r.Context(), spec)
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
	f, err := c.s.engine.Find(c.r.Context(), c.name)
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
	if c.s.engine.Listed(name) {
		lost += ", and the next start makes it again, empty, as the settings list it"
	}
	if err := c.confirmed(name, lost); err != nil {
		return err
	}
	if err := c.s.engine.Drop(c.r.Context(), name); err != nil {
		return err
	}
	return c.sendNothing()
}

// confirmed refuses a call that loses data and does not name the filter twice.
func (c *call) confirmed(name, lost string) error {
	if c.r.URL.Query().Get("confirm") != name {
		return &problem.Error{Code: problem.ConfirmRequired, Detail: lost + "; if that is meant, add ?confirm=" + name}
	}
	return nil
}

// clearFilter forgets the items of a filter, but keeps the filter. Concurrent calls are not refused.
func (c *call) clearFilter() error {
	if err := c.readAway(); err != nil {
		return err
	}
	f, err := c.s.engine.Find(c.r.Context(), c.name)
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

func (c *call) sendFilter(status int, f *engine.Filter) error {
	text, err := filterjson.Text(f)
	if err != nil {
		return err
	}
	return c.send(status, c.s.header.json, append(text, '\n'))
}

func (c *call) sendJSON(v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if n := int64(cap(body)); n > firstRead && !c.hold(n) { // a list: nothing was changed
		return c.overloaded()
	}
	return c.send(http.StatusOK, c.s.header.json, append(body, '\n'))
}
