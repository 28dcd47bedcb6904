package clienttest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/cr-clawer/urifilter/client"
)

// Contract tests the behavior of a daemon on which package client relies. Both Server and the
// daemon must pass it, so that their answers stay the same. The daemon at url must ask for no
// token and have the default filters, without items.
func Contract(t *testing.T, url string) {
	for _, part := range []struct {
		name string
		test func(t *testing.T, c *client.Client)
	}{
		{"new items in order", testNewItems},
		{"values", testValues},
		{"check", testCheck},
		{"streams", testStreams},
		{"skip in lists", testSkipInLists},
		{"skip in streams", testSkipInStreams},
		{"errors", testErrors},
		{"errors of expire", testExpire},
		{"filters", testFilters},
		{"timing filters", testTimingFilters},
		{"exact filters", testExactFilters},
		{"forget", testForget},
		{"reserve", testReserve},
		{"near", testNear},
	} {
		t.Run(part.name, func(t *testing.T) {
			c, err := client.New(url)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			part.test(t, c)
		})
	}
}

// newContractFilter makes a filter for one test.
func newContractFilter(t *testing.T, c *client.Client, name, kind string) string {
	t.Helper()
	if _, created, err := c.CreateFilter(t.Context(), name, client.FilterSpec{Kind: kind}); err != nil || !created {
		t.Fatalf("create %s: %v, %v", name, created, err)
	}
	return name
}

func testNewItems(t *testing.T, c *client.Client) {
	items := []string{"https://b/", "http://a?x=\"1\"&y=\\", "https://b/", "新闻", "tab\tand\nline\x01\x7f", "<>\u2028", "https://c/"}
	want := []string{"https://b/", "http://a?x=\"1\"&y=\\", "新闻", "tab\tand\nline\x01\x7f", "<>\u2028", "https://c/"}
	got, err := c.Filter(t.Context(), "uri", items)
	if err != nil || !slices.Equal(got, want) {
		t.Fatalf("first call: got %q, %v; want %q", got, err, want)
	}
	got, err = c.Filter(t.Context(), "1", append(items, "https://d/"))
	if err != nil || !slices.Equal(got, []string{"https://d/"}) {
		t.Errorf("second call, by id: got %q, %v; want only https://d/", got, err)
	}
	got, err = c.Filter(t.Context(), "uri", nil)
	if err != nil || got == nil || len(got) != 0 {
		t.Errorf("no items: got %#v, %v; want an empty list", got, err)
	}
}

func testValues(t *testing.T, c *client.Client) {
	f := newContractFilter(t, c, "values", "")
	items := []any{1.0, "1", map[string]any{"a": "<b>"}, []any{true, nil}, 1.0}
	got, err := client.FilterJSON(t.Context(), c, f, items)
	if err != nil || fmt.Sprintf("%#v", got) != `[]interface {}{1, "1", map[string]interface {}{"a":"<b>"}, []interface {}{true, interface {}(nil)}}` {
		t.Errorf("got %#v, %v", got, err)
	}
	fresh, err := client.CheckJSON(t.Context(), c, f, []any{1, "1", 2})
	if err != nil || !slices.Equal(fresh, []bool{false, false, true}) {
		t.Errorf("check: got %v, %v", fresh, err)
	}
	if got, err := client.FilterJSON[int](t.Context(), c, f, nil); err != nil || len(got) != 0 {
		t.Errorf("no items: got %v, %v", got, err)
	}
}

func testCheck(t *testing.T, c *client.Client) {
	for range 2 {
		got, err := c.Check(t.Context(), "ip", []string{"10.0.0.1", "10.0.0.1"})
		if err != nil || !slices.Equal(got, []bool{true, true}) {
			t.Fatalf("got %v, %v; want both new", got, err)
		}
	}
}

func testStreams(t *testing.T, c *client.Client) {
	// As a source of known length, and as one of unknown length in single bytes.
	for i, wrap := range []func(io.Reader) io.Reader{func(r io.Reader) io.Reader { return r }, iotest.OneByteReader} {
		f := newContractFilter(t, c, fmt.Sprint("streams", i), "")
		for _, test := range []struct {
			in, want     string
			total, fresh int64
		}{
			{"\ufeffa\r\nb\n\na\n新\nc", "a\nb\n新\nc\n", 5, 4},
			{"b\nd\n", "d\n", 2, 1},
			{"", "", 0, 0},
			{"a\n", "", 1, 0},
		} {
			var out bytes.Buffer
			total, fresh, err := c.FilterLines(t.Context(), f, wrap(strings.NewReader(test.in)), &out)
			if err != nil || out.String() != test.want || total != test.total || fresh != test.fresh {
				t.Errorf("%q: got %q, %d, %d, %v; want %q, %d, %d", test.in, &out, total, fresh, err, test.want, test.total, test.fresh)
			}
		}
		checkLines := func(call func(context.Context, string, io.Reader, io.Writer, ...client.CallOption) (int64, error), in, want string) {
			t.Helper()
			var out bytes.Buffer
			if total, err := call(t.Context(), f, wrap(strings.NewReader(in)), &out); err != nil || total != 2 || out.String() != want {
				t.Errorf("check %q: got %q, %d, %v", in, &out, total, err)
			}
		}
		checkLines(c.CheckLines, "a\nx\n", "seen\nnew\n")
		var out bytes.Buffer
		total, fresh, err := c.FilterNDJSON(t.Context(), f, wrap(strings.NewReader("1\n\"a\"\n {\"k\":1} \n")), &out)
		if err != nil || total != 3 || fresh != 2 || out.String() != "1\n{\"k\":1}\n" {
			t.Errorf("ndjson: got %q, %d, %d, %v", &out, total, fresh, err)
		}
		checkLines(c.CheckNDJSON, "1\n2\n", "false\ntrue\n")
	}
}

// summary describes briefly which items were skipped.
func summary(skipped client.InvalidItems) string {
	text := fmt.Sprint(skipped.Invalid)
	for _, item := range skipped.Items {
		text += fmt.Sprintf(" %d:%s", item.Index, item.ErrorCode)
		if item.Detail == "" {
			text += " without detail"
		}
	}
	return text
}

func testSkipInLists(t *testing.T, c *client.Client) {
	f := newContractFilter(t, c, "skips", "")
	var skipped client.InvalidItems
	skip := client.SkipInvalid(&skipped)
	got, err := c.Filter(t.Context(), f, []string{"a", "", "b", "caf\xe9", "a"}, skip)
	if err != nil || !slices.Equal(got, []string{"a", "b"}) || summary(skipped) != "2 1:empty_item 3:invalid_utf8" {
		t.Errorf("filter: %q, %v, skipped %s", got, err, summary(skipped))
	}
	isNew, err := c.Check(t.Context(), f, []string{"", "a", "c"}, skip)
	if err != nil || !slices.Equal(isNew, []bool{false, false, true}) || summary(skipped) != "1 0:empty_item" {
		t.Errorf("check: %v, %v, skipped %s", isNew, err, summary(skipped))
	}
	values, err := client.FilterJSON(t.Context(), c, f, []any{nil, 7.0, ""}, skip)
	if err != nil || len(values) != 1 || values[0] != 7.0 || summary(skipped) != "2 0:null_item 2:empty_item" {
		t.Errorf("values: %v, %v, skipped %s", values, err, summary(skipped))
	}
	if isNew, err = client.CheckJSON(t.Context(), c, f, []any{nil, 7, 8}, skip); err != nil || !slices.Equal(isNew, []bool{false, false, true}) {
		t.Errorf("check of values: %v, %v", isNew, err)
	}
	if got, err = c.Filter(t.Context(), f, []string{"d"}, skip); err != nil || len(got) != 1 || summary(skipped) != "0" {
		t.Errorf("nothing to skip: %q, %v, skipped %s", got, err, summary(skipped))
	}
	if got, err = c.Filter(t.Context(), f, slices.Repeat([]string{""}, 250), client.SkipInvalid(nil)); err != nil || len(got) != 0 {
		t.Errorf("all skipped: %q, %v", got, err)
	}
	if _, err = c.Filter(t.Context(), f, slices.Repeat([]string{""}, 250), skip); err != nil || skipped.Invalid != 250 || len(skipped.Items) != 100 {
		t.Errorf("all skipped: %v, %d, %d described", err, skipped.Invalid, len(skipped.Items))
	}
}

func testSkipInStreams(t *testing.T, c *client.Client) {
	f := newContractFilter(t, c, "stream_skips", "")
	var skipped client.InvalidItems
	skip := client.SkipInvalid(&skipped)
	for _, test := range []struct{ in, out, told string }{
		{"\"a\"\nplain\n\n\"\"\n\"b\"\n", "\"a\"\n\"b\"\n", "2 1:malformed_json 3:empty_item"},
		{"\"b\"\n", "", "0"},
		{"{", "", "1 0:malformed_json"},
		// Longer than one batch: the header is sent before the totals are known.
		{"null\n" + strings.Repeat("\"b\"\n", 600_000) + "tail\n\"c\"\n", "\"c\"\n", "2 0:null_item 600001:malformed_json"},
	} {
		var out bytes.Buffer
		total, fresh, err := c.FilterNDJSON(t.Context(), f, strings.NewReader(test.in), &out, skip)
		lines := int64(strings.Count(strings.ReplaceAll(test.in, "\n\n", "\n")+"\n", "\n")) - int64(strings.Count(test.in[len(test.in)-1:], "\n"))
		if err != nil || out.String() != test.out || summary(skipped) != test.told || fresh != int64(strings.Count(test.out, "\n")) || total != lines {
			t.Errorf("%.40q: got %q, %d of %d new, %v, skipped %s; want %q, %s of %d", test.in, &out, fresh, total, err, summary(skipped), test.out, test.told, lines)
		}
	}
	var out bytes.Buffer
	if total, err := c.CheckNDJSON(t.Context(), f, strings.NewReader("\"a\"\nplain\n\"d\"\n"), &out, skip); err != nil || total != 3 || out.String() != "false\nnull\ntrue\n" || summary(skipped) != "1 1:malformed_json" {
		t.Errorf("check: %q, %d, %v, skipped %s", &out, total, err, summary(skipped))
	}
	out.Reset()
	if total, fresh, err := c.FilterLines(t.Context(), f, strings.NewReader("x\n"), &out, skip); err != nil || total != 1 || fresh != 1 || summary(skipped) != "0" {
		t.Errorf("lines: %q, %d, %d, %v, skipped %s", &out, total, fresh, err, summary(skipped))
	}
}

// wantRefusal checks the status and the code of an error.
func wantRefusal(t *testing.T, what string, err error, status int, code string) *client.Error {
	t.Helper()
	var e *client.Error
	if !errors.As(err, &e) || e.Status != status || e.ErrorCode != code {
		t.Errorf("%s: got %v, want %d %s", what, err, status, code)
		return &client.Error{}
	}
	return e
}

func testErrors(t *testing.T, c *client.Client) {
	f := newContractFilter(t, c, "errors", "")
	_, err := c.Filter(t.Context(), f, []string{"a", ""})
	if e := wantRefusal(t, "empty item", err, 400, "empty_item"); e.Index == nil || *e.Index != 1 {
		t.Errorf("empty item: index %v", e.Index)
	}
	// Bytes that are not UTF-8 arrive unchanged, so that no two items become one on the way.
	_, err = c.Filter(t.Context(), f, []string{"a", "caf\xe9"})
	if e := wantRefusal(t, "latin-1 item", err, 400, "invalid_utf8"); e.Index == nil || *e.Index != 1 {
		t.Errorf("latin-1 item: index %v", e.Index)
	}
	_, err = client.FilterJSON(t.Context(), c, f, []any{nil})
	wantRefusal(t, "null", err, 400, "null_item")
	_, err = c.Filter(t.Context(), "nope", []string{"a"})
	if e := wantRefusal(t, "unknown filter", err, 404, "unknown_filter"); !slices.Contains(e.Known, "uri_parse") {
		t.Errorf("unknown filter: known are %q", e.Known)
	}
	_, _, err = c.FilterNDJSON(t.Context(), f, strings.NewReader("\"a\"\n{\n"), io.Discard)
	if e := wantRefusal(t, "ndjson", err, 400, "malformed_json"); e.Index == nil || *e.Index != 1 {
		t.Errorf("ndjson: index %v", e.Index)
	}
	if isNew, err := c.Check(t.Context(), f, []string{"a"}); err != nil || !isNew[0] {
		t.Errorf("an item of a refused list is remembered: %v, %v", isNew, err)
	}
}

func testExpire(t *testing.T, c *client.Client) {
	timing := newContractFilter(t, c, "recent", "timing")
	for _, test := range []struct {
		filter  string
		options []client.CallOption
		want    string
	}{
		{timing, nil, "expire_missing"},
		{timing, []client.CallOption{client.Expire(0)}, "expire_invalid"},
		{timing, []client.CallOption{client.Expire(-time.Second)}, "expire_invalid"},
		{timing, []client.CallOption{client.Expire(11 * 365 * 24 * time.Hour)}, "expire_invalid"},
		{"uri", []client.CallOption{client.Expire(time.Second)}, "expire_not_supported"},
	} {
		_, err := c.Filter(t.Context(), test.filter, []string{"x"}, test.options...)
		wantRefusal(t, test.filter, err, 422, test.want)
		_, _, err = c.FilterLines(t.Context(), test.filter, strings.NewReader("x\n"), io.Discard, test.options...)
		wantRefusal(t, test.filter+", a stream", err, 422, test.want)
	}
	if got, err := c.Filter(t.Context(), timing, []string{"x"}, client.Expire(90*time.Minute+500*time.Millisecond)); err != nil || len(got) != 1 {
		t.Errorf("got %q, %v", got, err)
	}
}
