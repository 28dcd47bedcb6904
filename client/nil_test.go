package client_test

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/cr-clawer/urifilter/client"
)

// TestClientThatIsNil tests what a program gets that did not check New's error.
func TestClientThatIsNil(t *testing.T) {
	ctx := context.Background()
	calls := map[string]func(c *client.Client){
		"Filter":       func(c *client.Client) { c.Filter(ctx, "uri", []string{"a"}) },
		"FilterJSON":   func(c *client.Client) { client.FilterJSON(ctx, c, "uri", []int{1}) },
		"FilterLines":  func(c *client.Client) { c.FilterLines(ctx, "uri", strings.NewReader("a"), io.Discard) },
		"FilterNDJSON": func(c *client.Client) { c.FilterNDJSON(ctx, "uri", strings.NewReader("1"), io.Discard) },
		"Check":        func(c *client.Client) { c.Check(ctx, "uri", []string{"a"}) },
		"CheckJSON":    func(c *client.Client) { client.CheckJSON(ctx, c, "uri", []int{1}) },
		"CheckLines":   func(c *client.Client) { c.CheckLines(ctx, "uri", strings.NewReader("a"), io.Discard) },
		"CheckNDJSON":  func(c *client.Client) { c.CheckNDJSON(ctx, "uri", strings.NewReader("1"), io.Discard) },
		"Filters":      func(c *client.Client) { c.Filters(ctx) },
		"GetFilter":    func(c *client.Client) { c.GetFilter(ctx, "uri") },
		"CreateFilter": func(c *client.Client) { c.CreateFilter(ctx, "uri", client.FilterSpec{}) },
		"ClearFilter":  func(c *client.Client) { c.ClearFilter(ctx, "uri") },
		"DropFilter":   func(c *client.Client) { c.DropFilter(ctx, "uri") },
		"Writeback":    func(c *client.Client) { c.Writeback(ctx, "uri") },
		"Restore":      func(c *client.Client) { c.Restore(ctx, "uri", "") },
		"Ready":        func(c *client.Client) { c.Ready(ctx) },
		"URL":          func(c *client.Client) { _ = c.URL() },
		"Close":        func(c *client.Client) { c.Close() },
	}
	for name, call := range calls {
		for _, c := range []*client.Client{nil, {}} {
			if said := saidInPanic(func() { call(c) }); !strings.Contains(said, "look at New's error") {
				t.Errorf("%s of a client that is nil (%t) panics with %q", name, c == nil, said)
			}
		}
	}
}

func saidInPanic(do func()) (said string) {
	defer func() { said = fmt.Sprint(recover()) }()
	do()
	return ""
}
