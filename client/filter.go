package client

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
)

// Filter remembers items in the filter typ (its name, or its id in decimal) and returns
// those that were new, in order; of equal items in the list only the first. Items are
// UTF-8 and not empty. See the package comment for the effects of a failed call.
func (c *Client) Filter(ctx context.Context, typ string, items []string, options ...CallOption) ([]string, error) {
	o := collect(options)
	req := c.encode(typ, items, o)
	defer c.release(req)
	answer, err := c.filter(ctx, typ, req.body, req.answer, o.accept())
	if err != nil {
		return nil, err
	}
	req.answer = answer.body
	var result FilterResult[string]
	ok := false
	if answer.inBits() {
		result, err = c.pick(answer, items)
	} else if result, ok = req.parseFresh(answer.body, items); !ok {
		err = c.decode("filter", answer, &result)
	}
	if err != nil {
		return nil, err
	}
	if err := c.agree(answer, result.Total, result.Duplicates, len(result.URIList), result.Invalid, len(items)); err != nil {
		return nil, err
	}
	o.tell(result.InvalidItems)
	if answer.doubted && c.inDoubt == DoubtNew {
		return once(items, result.InvalidItems, func(i int) string { return items[i] }), nil
	}
	return result.URIList, nil
}

// FilterJSON is [Client.Filter] for items of any JSON value: numbers, lists, objects.
// Equal values are one item however they are written (1 and 1.0, or an object's keys in
// another order), and "1" is not 1. encoding/json writes the items, which replaces bytes
// that are not UTF-8, and reads the new ones into T.
func FilterJSON[T any](ctx context.Context, c *Client, typ string, items []T, options ...CallOption) ([]T, error) {
	o := collect(options)
	body, err := encodeJSON(typ, items, o)
	if err != nil {
		return nil, err
	}
	answer, err := c.filter(ctx, typ, body, nil, "")
	if err != nil {
		return nil, err
	}
	var result FilterResult[T]
	if err := c.decode("filter", answer, &result); err != nil {
		return nil, err
	}
	if err := c.agree(answer, result.Total, result.Duplicates, len(result.URIList), result.Invalid, len(items)); err != nil {
		return nil, err
	}
	o.tell(result.InvalidItems)
	if answer.doubted && c.inDoubt == DoubtNew {
		return once(items, result.InvalidItems, func(i int) string {
			text, _ := json.Marshal(items[i]) // it succeeded before
			return string(text)
		}), nil
	}
	return result.URIList, nil
}

// once returns items without those whose text equals that of an earlier one, and without
// those that are known to be invalid.
func once[T any](items []T, invalid InvalidItems, text func(i int) string) []T {
	seen := make(map[string]bool, len(items))
	var first []T
	for i, item := range items {
		if len(invalid.Items) > 0 && invalid.Items[0].Index == i {
			invalid.Items = invalid.Items[1:]
			continue
		}
		if t := text(i); !seen[t] {
			seen[t] = true
			first = append(first, item)
		}
	}
	return first
}

// Check reports for each item whether it would be new, and remembers nothing. An item that
// appears in the list twice is judged each time as if it appeared only once.
func (c *Client) Check(ctx context.Context, typ string, items []string, options ...CallOption) ([]bool, error) {
	o := collect(options)
	req := c.encode(typ, items, o)
	defer c.release(req)
	return c.check(ctx, typ, req.body, len(items), o)
}

// CheckJSON is [Client.Check] for items of any JSON value.
func CheckJSON[T any](ctx context.Context, c *Client, typ string, items []T, options ...CallOption) ([]bool, error) {
	o := collect(options)
	body, err := encodeJSON(typ, items, o)
	if err != nil {
		return nil, err
	}
	return c.check(ctx, typ, body, len(items), o)
}

func (c *Client) check(ctx context.Context, typ string, body []byte, items int, o callOptions) ([]bool, error) {
	answer, err := c.exchange(ctx, call{method: http.MethodPost, path: []string{"api", "v1", "check"}, filter: typ, idempotent: true, accept: o.accept()}, body, nil)
	if err != nil {
		return nil, err
	}
	if answer.inBits() {
		return c.verdicts("check", answer, items)
	}
	var result CheckResult
	if err := c.decode("check", answer, &result); err != nil {
		return nil, err
	}
	if len(result.New) != items {
		return nil, c.odd("check", answer, fmt.Errorf("%d verdicts for %d items", len(result.New), items))
	}
	o.tell(result.InvalidItems)
	return result.New, nil
}

func (c *Client) filter(ctx context.Context, typ string, body, space []byte, accept string) (reply, error) {
	c.mustBeMade()
	return c.exchange(ctx, call{method: http.MethodPost, path: []string{"api", "v1", "filter"}, filter: typ, doubt: c.inDoubt, accept: accept}, body, space)
}

func (c *Client) decode(name string, answer reply, into any) error {
	if err := json.Unmarshal(answer.body, into); err != nil {
		return c.odd(name, answer, err)
	}
	return nil
}

// agree compares the counts of an answer with the request.
func (c *Client) agree(answer reply, total, duplicates, fresh int, invalid int64, sent int) error {
	if total != sent || duplicates != sent-fresh-int(invalid) {
		return c.odd("filter", answer, fmt.Errorf("%d new of %d, %d duplicates, %d invalid, for %d items sent", fresh, total, duplicates, invalid, sent))
	}
	return nil
}

// odd returns the error for an answer that no urifilter daemon gives. It does not say what was done.
func (c *Client) odd(name string, answer reply, err error) error {
	err = fmt.Errorf("answer of %s/api/v1/%s: %w", c.URL(), name, err)
	if answer.looks {
		return err
	}
	return &ConnectionError{InDoubt: true, Err: err}
}

func encodeJSON[T any](typ string, items []T, o callOptions) ([]byte, error) {
	if items == nil {
		items = []T{}
	}
	var b bytes.Buffer
	b.Write(appendHead(b.AvailableBuffer(), typ, o))
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(items); err != nil {
		return nil, fmt.Errorf("items: %w", err)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// headerOver says that a filter is past its capacity, and gives the current
// false-positive ratio. A stream has it as a trailer.
const headerOver = "Urifilter-Over-Capacity"

// WithLogger makes the client log to l what callers ought to know and no call returns: once
// for each filter, that it holds more items than it was made for, so that new items are
// called seen. Default: slog.Default(); slog.New(slog.DiscardHandler) logs nothing.
func WithLogger(l *slog.Logger) Option { return func(c *Client) { c.log = l } }

// noteOver logs, once for each filter, that an answer says that typ is past its capacity.
func (c *Client) noteOver(typ string, headers ...http.Header) {
	for _, h := range headers {
		ratio := h.Get(headerOver)
		if ratio == "" {
			continue
		}
		if _, told := c.toldOver.LoadOrStore(typ, true); told {
			return
		}
		log := c.log
		if log == nil {
			log = slog.Default()
		}
		log.Warn("filter is past its capacity: new items are called seen", "filter", typ, "fpr_estimate", ratio,
			"hint", "make a larger filter and use that one")
		return
	}
}
