package client

import (
	"context"
	"net/http"
	"net/url"
)

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
