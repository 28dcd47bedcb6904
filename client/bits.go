package client

import (
	"fmt"
	"math/bits"
	"strconv"
)

// A caller who has the list needs a bit an item for an answer: the daemon then copies no items, and
// they need not be found in it again. Daemons that do not know this form answer JSON.

// accept is the wish for it. What was skipped is described in JSON alone.
func (o callOptions) accept() string {
	if o.skips {
		return ""
	}
	return MediaBits + ", application/json;q=0.5"
}

func (a *reply) inBits() bool { return a.header.Get("Content-Type") == MediaBits }

// ones counts the new items. The error says that this is no answer for so many items.
func (c *Client) ones(name string, answer reply, items int) (ones int, err error) {
	for _, b := range answer.body {
		ones += bits.OnesCount8(b)
	}
	number := func(header string) int {
		n, err := strconv.Atoi(answer.header.Get(header))
		if err != nil {
			return -1
		}
		return n
	}
	total, duplicates := number("Urifilter-Total"), number("Urifilter-Duplicates")
	rest := byte(0) // of the last byte
	if items%8 > 0 && len(answer.body) > 0 {
		rest = answer.body[len(answer.body)-1] >> (items % 8)
	}
	if len(answer.body) != (items+7)/8 || rest != 0 || total != items || duplicates != items-ones {
		return 0, c.odd(name, answer, fmt.Errorf("%d bytes with %d bits, %d items, %d duplicates, for %d items sent", len(answer.body), ones, total, duplicates, items))
	}
	return ones, nil
}

// pick returns those of items whose bits are set.
func (c *Client) pick(answer reply, items []string) (result FilterResult[string], err error) {
	ones, err := c.ones("filter", answer, len(items))
	if err != nil {
		return result, err
	}
	result.URIList = make([]string, 0, ones)
	for at, octet := range answer.body {
		for ; octet != 0; octet &= octet - 1 {
			result.URIList = append(result.URIList, items[at*8+bits.TrailingZeros8(octet)])
		}
	}
	result.Total, result.Duplicates = len(items), len(items)-ones
	return result, nil
}

// verdicts returns the bits.
func (c *Client) verdicts(name string, answer reply, items int) ([]bool, error) {
	if _, err := c.ones(name, answer, items); err != nil {
		return nil, err
	}
	all := make([]bool, items)
	for i := range all {
		all[i] = answer.body[i/8]>>(i%8)&1 == 1
	}
	return all, nil
}
