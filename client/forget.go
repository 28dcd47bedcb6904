package client

import (
	"context"
	"fmt"
	"net/http"
)

// ForgetResult is the answer to POST /api/v1/forget.
type ForgetResult struct {
	// Forgotten is how many items of the list were seen, each counted once.
	Forgotten int `json:"forgotten"`

	InvalidItems
}

// Forget makes items new again in the filter typ, of the kind exact or timing, and returns how
// many of them were seen. It needs a token with the scope forget. A call whose answer was
// lost is repeated: the number is then what the last attempt found, although all items are
// forgotten; an item that another caller added between the attempts is forgotten, too. The
// same holds for in-doubt errors: repeat the call.
func (c *Client) Forget(ctx context.Context, typ string, items []string, options ...CallOption) (int, error) {
	o := collect(options)
	req := c.encode(typ, items, o)
	defer c.release(req)
	return c.forget(ctx, typ, req.body, len(items), o)
}

// ForgetJSON is [Client.Forget] for items of any JSON value.
func ForgetJSON[T any](ctx context.Context, c *Client, typ string, items []T, options ...CallOption) (int, error) {
	o := collect(options)
	body, err := encodeJSON(typ, items, o)
	if err != nil {
		return 0, err
	}
	return c.forget(ctx, typ, body, len(items), o)
}

func (c *Client) forget(ctx context.Context, typ string, body []byte, items int, o callOptions) (int, error) {
	c.mustBeMade()
	answer, err := c.exchange(ctx, call{method: http.MethodPost, path: []string{"api", "v1", "forget"}, filter: typ, idempotent: true, changes: true}, body, nil)
	if err != nil {
		return 0, err
	}
	var result ForgetResult
	if err := c.decode("forget", answer, &result); err != nil {
		return 0, err
	}
	if result.Forgotten < 0 || result.Forgotten > items {
		return 0, c.odd("forget", answer, fmt.Errorf("%d of %d items are forgotten", result.Forgotten, items))
	}
	o.tell(result.InvalidItems)
	return result.Forgotten, nil
}
