package download

import (
	"strings"
	"testing"
)

func TestTaskOf(t *testing.T) {
	t.Parallel()
	for uri, want := range map[string]string{
		"https://example.com/a?b=c#d":  "https://example.com/a?b=c#d",
		"  http://[2001:db8::1]:8080/": "http://[2001:db8::1]:8080/",
		"HTTP://EXAMPLE.com":           "HTTP://EXAMPLE.com",
		"https://example.com/100%/%zz": "https://example.com/100%/%zz",
	} {
		if task, err := TaskOf(uri); err != nil || task.URI != want || task.Shard < 0 || task.Shard >= Shards {
			t.Errorf("%q: %+v, %v", uri, task, err)
		}
	}
	for uri, want := range map[string]string{
		"": "want http://", "ftp://example.com/": "want http://", "http:///path": "and a host", "http://a b/": "invalid character",
		"http://a/\xff": "percent-encode its bytes", "//example.com/": "want http://", "http://exa\x00mple/": "control character", "http://exa%zzmple/": "invalid URL escape", "ftp://example.com/%": "invalid URL escape", "http://" + strings.Repeat("a", MaxURI): "8192 at most",
	} {
		if task, err := TaskOf(uri); err == nil || !strings.Contains(err.Error(), want) || len(err.Error()) > 300 {
			t.Errorf("%.40q: %+v, %v, want %q", uri, task, err, want)
		}
	}
}

func TestShardOf(t *testing.T) {
	t.Parallel()
	if ShardOf("Example.COM.") != ShardOf("example.com") {
		t.Error("one host, two shards")
	}
	used := map[int]bool{}
	for i := range 10_000 {
		used[ShardOf(strings.Repeat("a", i%50)+string(rune('a'+i%26))+".example")] = true
	}
	if len(used) < Shards/2 {
		t.Errorf("%d shards of %d are used", len(used), Shards)
	}
}

// A host has one shard and one queue, however it is spelled.
func TestHostOf(t *testing.T) {
	t.Parallel()
	for uri, want := range map[string]string{
		"http://Example.COM./a": "example.com", "https://example.com:8443": "example.com", "http://münchen.example/": "xn--mnchen-3ya.example",
		"http://xn--mnchen-3ya.example/": "xn--mnchen-3ya.example", "http://127.1/": "127.0.0.1", "http://exam%70le.com/": "example.com",
		"http://[2001:DB8::1]:80/": "2001:db8::1", "ftp://a.example/": "", "nothing": "",
	} {
		if got := HostOf(uri); got != want {
			t.Errorf("%s: %q, want %q", uri, got, want)
		}
	}
	for _, same := range []string{"http://münchen.example/", "http://MÜNCHEN.example./"} {
		one, err := TaskOf(same)
		two, wrong := TaskOf("http://xn--mnchen-3ya.example/")
		if err != nil || wrong != nil || one.Shard != two.Shard {
			t.Errorf("%s: shards %d and %d, %v, %v", same, one.Shard, two.Shard, err, wrong)
		}
	}
}
