package client

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
)

// Filters lists all filters that are served, by id.
func (c *Client) Filters(ctx context.Context) ([]FilterInfo, error) {
	list, err := c.AllFilters(ctx)
	return list.Filters, err
}

// AllFilters is Filters with those that are in quarantine.
func (c *Client) AllFilters(ctx context.Context) (FilterList, error) {
	answer, err := c.exchange(ctx, call{method: http.MethodGet, path: []string{"api", "v1", "filters"}, idempotent: true}, nil, nil)
	if err != nil {
		return FilterList{}, err
	}
	var list FilterList
	err = c.decode("filters", answer.body, &list)
	return list, err
}

// GetFilter describes the filter of that name. An *Error with the code unknown_filter
// says that there is none, and which there are.
func (c *Client) GetFilter(ctx context.Context, name string) (FilterInfo, error) {
	answer, err := c.exchange(ctx, filterCall(http.MethodGet, name), nil, nil)
	if err != nil {
		return FilterInfo{}, err
	}
	var info FilterInfo
	err = c.decode("filters/"+name, answer.body, &info)
	return info, err
}

// CreateFilter makes a filter, or finds the one that is there with the same parameters;
// created tells them apart, and the call may be repeated. An *Error with the code
// filter_conflict says that the name or id is taken by another.
func (c *Client) CreateFilter(ctx context.Context, name string, spec FilterSpec) (info FilterInfo, created bool, err error) {
	body, err := json.Marshal(spec)
	if err != nil {
		return FilterInfo{}, false, err
	}
	answer, err := c.exchange(ctx, filterCall(http.MethodPut, name), body, nil)
	if err != nil {
		return FilterInfo{}, false, err
	}
	err = c.decode("filters/"+name, answer.body, &info)
	return info, answer.status == http.StatusCreated, err
}

// DropFilter forgets a filter and all its items. It needs a token of the admin scope.
func (c *Client) DropFilter(ctx context.Context, name string) error {
	k := filterCall(http.MethodDelete, name)
	k.query = url.Values{"confirm": {name}}
	_, err := c.exchange(ctx, k, nil, nil)
	return err
}

// ClearFilter forgets all items of a filter, which keeps its id, name and parameters, in one
// step: who asks meanwhile is answered. It may be repeated, and is, where an answer was lost:
// what was remembered in between is then forgotten too. It needs a token of the admin scope.
func (c *Client) ClearFilter(ctx context.Context, name string) (FilterInfo, error) {
	k := filterCall(http.MethodPost, name)
	k.path, k.query = append(k.path, "clear"), url.Values{"confirm": {name}}
	k.idempotent, k.changes = true, true
	answer, err := c.exchange(ctx, k, nil, nil)
	if err != nil {
		return FilterInfo{}, err
	}
	var info FilterInfo
	err = c.decode("filters/"+name+"/clear", answer.body, &info)
	return info, err
}

// Ready returns nil if a daemon takes batches now, and otherwise why not. It asks each
// daemon once and does not wait.
func (c *Client) Ready(ctx context.Context) error {
	_, err := c.exchange(ctx, call{method: http.MethodGet, path: []string{"readyz"}, idempotent: true, once: true}, nil, nil)
	return err
}

// filterCall is a call for one filter. GET and PUT leave the same behind however often
// they are made.
func filterCall(method, name string) call {
	return call{method: method, path: []string{"api", "v1", "filters", name}, idempotent: method == http.MethodGet || method == http.MethodPut}
}

// Writeback copies the bit-map of a filter to the daemon's archive and returns when
// that is done, which may take minutes: only ctx limits it. It needs a token of the
// admin scope. An *Error with the code lease_held says who else is at it.
func (c *Client) Writeback(ctx context.Context, name string) (CopyResult, error) {
	return c.copyFilter(ctx, name, "writeback", nil)
}

// Restore sets in a filter all bits of a version in the archive, "" for the newest one.
// What the filter remembers already stays. Otherwise it is as Writeback.
func (c *Client) Restore(ctx context.Context, name, version string) (CopyResult, error) {
	var query url.Values
	if version != "" {
		query = url.Values{"version": {version}}
	}
	return c.copyFilter(ctx, name, "restore", query)
}

func (c *Client) copyFilter(ctx context.Context, name, verb string, query url.Values) (CopyResult, error) {
	k := filterCall(http.MethodPost, name)
	k.path, k.query = append(k.path, verb), query
	k.untimed = true
	answer, err := c.exchange(ctx, k, nil, nil)
	if err != nil {
		return CopyResult{}, err
	}
	var result CopyResult
	err = c.decode("filters/"+name+"/"+verb, answer.body, &result)
	return result, err
}
