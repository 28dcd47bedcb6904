package client

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// Filters lists all filters that are served, by id.
func (c *Client) Filters(ctx context.Context) ([]FilterInfo, error) {
	list, err := c.AllFilters(ctx)
	return list.Filters, err
}

// AllFilters is Filters, plus the filters that are in quarantine.
func (c *Client) AllFilters(ctx context.Context) (FilterList, error) {
	return ask[FilterList](ctx, c, call{method: http.MethodGet, path: []string{"api", "v1", "filters"}, idempotent: true}, nil)
}

// GetFilter describes the filter of that name. An *Error with the code unknown_filter
// says that it does not exist, and which filters do.
func (c *Client) GetFilter(ctx context.Context, name string) (FilterInfo, error) {
	return ask[FilterInfo](ctx, c, filterCall(http.MethodGet, name), nil)
}

// CreateFilter creates a filter, or finds the existing one with the same parameters;
// created distinguishes the two, and the call may be repeated. An *Error with the code
// filter_conflict says that a different filter has the name or id.
func (c *Client) CreateFilter(ctx context.Context, name string, spec FilterSpec) (info FilterInfo, created bool, err error) {
	body, err := json.Marshal(spec)
	if err != nil {
		return FilterInfo{}, false, err
	}
	answer, err := c.exchange(ctx, filterCall(http.MethodPut, name), body, nil)
	if err != nil {
		return FilterInfo{}, false, err
	}
	err = c.decode("filters/"+name, answer, &info)
	return info, answer.status == http.StatusCreated, err
}

// DropFilter forgets a filter and all its items. It needs a token of the admin scope.
func (c *Client) DropFilter(ctx context.Context, name string) error {
	k := filterCall(http.MethodDelete, name)
	k.query = url.Values{"confirm": {name}}
	_, err := c.exchange(ctx, k, nil, nil)
	return err
}

// ClearFilter forgets all items of a filter in one step: the filter keeps its id, name and
// parameters, and answers other calls meanwhile. The call may be repeated, and is repeated if
// an answer was lost: items that were remembered in between are then forgotten too. It needs
// a token of the admin scope.
func (c *Client) ClearFilter(ctx context.Context, name string) (FilterInfo, error) {
	k := filterCall(http.MethodPost, name)
	k.path, k.query = append(k.path, "clear"), url.Values{"confirm": {name}}
	k.idempotent, k.changes = true, true
	return ask[FilterInfo](ctx, c, k, nil)
}

// MergeFilter makes all items of one filter seen in another, and returns the latter. The first stays
// as it is. Both must be of one kind, be made for the same, and hash with one secret: see
// [FilterSpec.Like]; an *Error with the code filters_differ says in what they differ. The call may
// take minutes: only ctx limits it. It can be repeated. It needs a token of the admin scope.
func (c *Client) MergeFilter(ctx context.Context, from, into string) (FilterInfo, error) {
	k := filterCall(http.MethodPost, into)
	k.path, k.query = append(k.path, "merge"), url.Values{"from": {from}}
	k.idempotent, k.changes, k.untimed = true, true, true
	return ask[FilterInfo](ctx, c, k, nil)
}

// DigestParts is into how many parts [Client.Digests] divides a filter.
const DigestParts = 256

// Digests returns a part of the digests of a filter that keeps some (exact, timing), from 0 to
// DigestParts-1: lines of text, of which the first describes the filter, with the secret by which
// its items are hashed. It needs a token of the admin scope.
func (c *Client) Digests(ctx context.Context, name string, part int) ([]byte, error) {
	k := filterCall(http.MethodGet, name)
	k.path, k.query = append(k.path, "digests"), url.Values{"part": {strconv.Itoa(part)}}
	answer, err := c.exchange(ctx, k, nil, nil)
	return answer.body, err
}

// PutDigests makes digests seen, in lines as [Client.Digests] returns them; the first line may be
// that of another part. A filter that does not exist is made as that line says. The call may be
// repeated. It needs a token of the admin scope.
func (c *Client) PutDigests(ctx context.Context, name string, lines []byte) (DigestsResult, error) {
	k := filterCall(http.MethodPost, name)
	k.path, k.kind = append(k.path, "digests"), "text/plain; charset=utf-8"
	k.idempotent, k.changes = true, true
	return ask[DigestsResult](ctx, c, k, lines)
}

// Ready returns nil if a daemon accepts batches now, and otherwise an error that says why
// not. It queries each daemon once and does not wait.
func (c *Client) Ready(ctx context.Context) error {
	_, err := c.exchange(ctx, call{method: http.MethodGet, path: []string{"readyz"}, idempotent: true, once: true}, nil, nil)
	return err
}

// ask makes a call and reads its answer of JSON.
func ask[T any](ctx context.Context, c *Client, k call, body []byte) (result T, err error) {
	answer, err := c.exchange(ctx, k, body, nil)
	if err == nil {
		err = c.decode(strings.Join(k.path[2:], "/"), answer, &result)
	}
	return result, err
}

// filterCall returns a call for one filter. GET and PUT have the same effect however often
// they are repeated.
func filterCall(method, name string) call {
	return call{method: method, path: []string{"api", "v1", "filters", name}, idempotent: method == http.MethodGet || method == http.MethodPut}
}

// Writeback copies the bit-map of a filter to the daemon's archive and returns when
// that is done, which may take minutes: only ctx limits it. It needs a token of the
// admin scope. An *Error with the code lease_held says who else is doing so.
func (c *Client) Writeback(ctx context.Context, name string) (CopyResult, error) {
	return c.copyFilter(ctx, name, "writeback", nil)
}

// Restore sets in a filter all bits of a version in the archive, "" for the newest one.
// Items that the filter already remembers stay. Otherwise it is like Writeback.
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
	return ask[CopyResult](ctx, c, k, nil)
}
