package client

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// ReserveResult is the answer to POST /api/v1/reserve.
type ReserveResult[T any] struct {
	// URIList has the new items, in order: they are the caller's until the lease ends.
	URIList []T `json:"uri_list"`
	// Reservation is the id that Commit and Release need; zeros if no item is new.
	Reservation string `json:"reservation"`
	Total       int    `json:"total"`
	Duplicates  int    `json:"duplicates"`
	Reserved    int    `json:"reserved"` // items that others have reserved

	InvalidItems
}

// SettleResult is the answer to POST /api/v1/commit and /api/v1/release.
type SettleResult[T any] struct {
	Done int `json:"done"` // equal items count once
	// Lost has the items of the call that could not be committed or released: others took them
	// after the lease had ended, or they were forgotten, or the reservation never had them.
	Lost      []T `json:"lost"`
	LostTotal int `json:"lost_total"` // also for a call for all items, whose Lost is empty

	InvalidItems
}

// Reserve reserves the new items of a list in the filter typ, of the kind exact or timing, for
// the duration lease: no other caller gets them. [Client.Commit] makes them seen,
// [Client.Release] gives them back; otherwise they are new again when the lease ends. A call
// whose answer was lost is repeated, and gets the same answer; one that fails with an in-doubt
// error may have reserved items until lease has passed.
func (c *Client) Reserve(ctx context.Context, typ string, items []string, lease time.Duration, options ...CallOption) (ReserveResult[string], error) {
	o := collect(options)
	o.reserves(lease)
	req := c.encode(typ, items, o)
	defer c.release(req)
	return reserve[string](ctx, c, typ, req.body, len(items), o)
}

// ReserveJSON is [Client.Reserve] for items of any JSON value.
func ReserveJSON[T any](ctx context.Context, c *Client, typ string, items []T, lease time.Duration, options ...CallOption) (ReserveResult[T], error) {
	o := collect(options)
	o.reserves(lease)
	body, err := encodeJSON(typ, items, o)
	if err != nil {
		return ReserveResult[T]{}, err
	}
	return reserve[T](ctx, c, typ, body, len(items), o)
}

func reserve[T any](ctx context.Context, c *Client, typ string, body []byte, sent int, o callOptions) (result ReserveResult[T], err error) {
	c.mustBeMade()
	answer, err := c.exchange(ctx, call{method: http.MethodPost, path: []string{"api", "v1", "reserve"}, filter: typ, doubt: DoubtSeen}, body, nil)
	if err != nil {
		return result, err
	}
	if err := c.decode("reserve", answer, &result); err != nil {
		return ReserveResult[T]{}, err
	}
	if n := len(result.URIList) + result.Duplicates + result.Reserved + int(result.Invalid); result.Total != sent || n != sent || result.Reservation == "" {
		return ReserveResult[T]{}, c.odd("reserve", answer, fmt.Errorf("%d of %d items have an answer", n, sent))
	}
	o.tell(result.InvalidItems)
	return result, nil
}

// Commit makes items of a reservation seen; nil means all that it has taken and not
// released. It works even after the lease has ended, unless somebody else has taken the item.
// In a filter of the kind timing the items are seen for its time, or that of [Expire], from now
// on. A call whose answer was lost is repeated, and gets the same answer. A reservation that
// the daemon does not know, or no longer knows, is an [*Error] with the code
// unknown_reservation.
func (c *Client) Commit(ctx context.Context, typ, reservation string, items []string, options ...CallOption) (SettleResult[string], error) {
	return c.settle(ctx, "commit", typ, reservation, items, options)
}

// Release makes items of a reservation new again at once; nil means all that it has taken and
// not committed. Items that were committed are in Lost. It is repeated like [Client.Commit].
func (c *Client) Release(ctx context.Context, typ, reservation string, items []string, options ...CallOption) (SettleResult[string], error) {
	return c.settle(ctx, "release", typ, reservation, items, options)
}

func (c *Client) settle(ctx context.Context, name, typ, reservation string, items []string, options []CallOption) (SettleResult[string], error) {
	o := collect(options)
	o.reservation = &reservation
	if items == nil {
		return settle[string](ctx, c, name, typ, appendHeadOnly(typ, o), o)
	}
	req := c.encode(typ, items, o)
	defer c.release(req)
	return settle[string](ctx, c, name, typ, req.body, o)
}

// CommitJSON is [Client.Commit] for items of any JSON value.
func CommitJSON[T any](ctx context.Context, c *Client, typ, reservation string, items []T, options ...CallOption) (SettleResult[T], error) {
	return settleJSON(ctx, c, "commit", typ, reservation, items, options)
}

// ReleaseJSON is [Client.Release] for items of any JSON value.
func ReleaseJSON[T any](ctx context.Context, c *Client, typ, reservation string, items []T, options ...CallOption) (SettleResult[T], error) {
	return settleJSON(ctx, c, "release", typ, reservation, items, options)
}

func settleJSON[T any](ctx context.Context, c *Client, name, typ, reservation string, items []T, options []CallOption) (SettleResult[T], error) {
	o := collect(options)
	o.reservation = &reservation
	body := appendHeadOnly(typ, o)
	if items != nil {
		var err error
		if body, err = encodeJSON(typ, items, o); err != nil {
			return SettleResult[T]{}, err
		}
	}
	return settle[T](ctx, c, name, typ, body, o)
}

func settle[T any](ctx context.Context, c *Client, name, typ string, body []byte, o callOptions) (result SettleResult[T], err error) {
	c.mustBeMade()
	answer, err := c.exchange(ctx, call{method: http.MethodPost, path: []string{"api", "v1", name}, filter: typ, idempotent: true, changes: true}, body, nil)
	if err != nil {
		return result, err
	}
	if err := c.decode(name, answer, &result); err != nil {
		return SettleResult[T]{}, err
	}
	if result.Done < 0 || result.LostTotal < len(result.Lost) {
		return SettleResult[T]{}, c.odd(name, answer, fmt.Errorf("%d done, %d of %d lost", result.Done, len(result.Lost), result.LostTotal))
	}
	o.tell(result.InvalidItems)
	return result, nil
}

// reserves sets the options of a call that reserves, and a random name by which the daemon
// recognizes the call when it is repeated.
func (o *callOptions) reserves(lease time.Duration) {
	var name [16]byte
	rand.Read(name[:]) // never fails
	text := hex.EncodeToString(name[:])
	o.leases, o.lease, o.reservation = true, lease, &text
}

// appendTerms writes the members that only calls for reservations have.
func (o callOptions) appendTerms(dst []byte) []byte {
	if o.leases {
		dst = append(dst, `,"lease":`...)
		dst = strconv.AppendFloat(dst, o.lease.Seconds(), 'f', -1, 64)
	}
	if o.reservation != nil {
		dst = append(dst, `,"reservation":`...)
		dst = appendString(dst, *o.reservation)
	}
	return dst
}
