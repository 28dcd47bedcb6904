package client

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
)

// Filters lists all filters, by id.
func (c *Client) Filters(ctx context.Context) ([]FilterInfo, error) {
	_, answer, err := c.exchange(ctx, call{method: http.MethodGet, path: []string{"api", "v1", "filters"}}, nil)
	if err != nil {
		return nil, err
	}
	var list FilterList
	err = c.decode("filters", answer, &list)
	return list.Filters, err
}

// GetFilter describes the filter of that name. An *Error with the code unknown_filter
// says that there is none, and which there are.
func (c *Client) GetFilter(ctx context.Context, name string) (FilterInfo, error) {
	_, answer, err := c.exchange(ctx, filterCall(http.MethodGet, name), nil)
	if err != nil {
		return FilterInfo{}, err
	}
	var info FilterInfo
	err = c.decode("filters/"+name, answer, &info)
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
	status, answer, err := c.exchange(ctx, filterCall(http.MethodPut, name), body)
	if err != nil {
		return FilterInfo{}, false, err
	}
	err = c.decode("filters/"+name, answer, &info)
	return info, status == http.StatusCreated, err
}

// DropFilter forgets a filter and all its items. It needs a token of the admin scope.
func (c *Client) DropFilter(ctx context.Context, name string) error {
	k := filterCall(http.MethodDelete, name)
	k.query = url.Values{"confirm": {name}}
	_, _, err := c.exchange(ctx, k, nil)
	return err
}

// Ready returns nil if the daemon takes batches now, and otherwise why not.
func (c *Client) Ready(ctx context.Context) error {
	_, _, err := c.exchange(ctx, call{method: http.MethodGet, path: []string{"readyz"}}, nil)
	return err
}

func filterCall(method, name string) call {
	return call{method: method, path: []string{"api", "v1", "filters", name}}
}
