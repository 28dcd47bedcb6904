package crawl

import (
	"testing"

	"github.com/spf13/pflag"

	"github.com/cr-clawer/urifilter/daemon/internal/crawl"
)

// TestFilterFlag: --server and --filter, and what they were called before.
func TestFilterFlag(t *testing.T) {
	for _, c := range []struct {
		args      []string
		url, name string
	}{
		{nil, "", "uri"},
		{[]string{"--server", "http://h:1", "--filter", "shop"}, "http://h:1", "shop"},
		{[]string{"--filter", "http://h:1", "--type", "shop"}, "http://h:1", "shop"},
		{[]string{"--type=shop", "--filter=h:1"}, "h:1", "shop"},
		{[]string{"--filter", "http://h:1"}, "http://h:1", "uri"},
		{[]string{"--filter", "shop"}, "", "shop"},
	} {
		s := crawl.Default()
		f := pflag.NewFlagSet("", pflag.ContinueOnError)
		bind(f, &s)
		if err := f.Parse(c.args); err != nil || s.FilterURL != c.url || s.FilterType != c.name {
			t.Errorf("%q: %q, %q, %v; want %q and %q", c.args, s.FilterURL, s.FilterType, err, c.url, c.name)
		}
		// A crawl that is continued keeps its daemon, however it is named.
		saved := s
		saved.FilterURL = "http://other:1"
		if err := change(f, nil, &saved); (err == nil) != (c.url == "") {
			t.Errorf("%q: %v", c.args, err)
		}
	}
}
