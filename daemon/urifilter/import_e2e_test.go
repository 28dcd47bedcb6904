package main

import (
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/cr-clawer/urifilter/daemon/internal/testkit/redistest"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/testserver"
	"github.com/cr-clawer/urifilter/daemon/urifilter/internal/processtest"
)

// TestImportOfADump: a filter in the layout of RedisBloom goes from one server to another by the
// commands of RedisBloom, with several layers and with more than a part, and is the same there.
func TestImportOfADump(t *testing.T) {
	from, to := testserver.Free(t), testserver.Free(t)
	processtest.Start(t, t.TempDir(), []string{"URIFILTER_RESP_LISTEN=" + from}, "--durability", "none")
	p := processtest.Start(t, t.TempDir(), []string{"URIFILTER_RESP_LISTEN=" + to}, "--durability", "none")
	t.Setenv("URIFILTER_URL", p.Addr)
	t.Setenv("URIFILTER_RESP", "redis://"+to)
	source, target := redistest.Client(t, redis.Options{Addr: from}), redistest.Client(t, redis.Options{Addr: to})
	ctx := t.Context()
	var some, others []any
	for i := range 20_000 {
		some, others = append(some, fmt.Sprintf("https://example.com/%d", i)), append(others, fmt.Sprintf("https://example.org/%d", i))
	}
	for name, capacity := range map[string]int64{"small": 1000, "large": 20_000_000} { // of 36 MB, in parts of 16 MiB
		if err := source.BFReserve(ctx, name, 0.001, capacity).Err(); err != nil {
			t.Fatal(err)
		}
		if err := source.BFMAdd(ctx, name, some...).Err(); err != nil {
			t.Fatal(err)
		}
		args := []string{"import", "--filter", name + ":copy", "redis://" + from + "/0/" + name}
		code, out, errOut := cli(t, nil, "", args...)
		if code != 0 || out != "" || !strings.HasPrefix(errOut, "filter "+name+":copy: ") || !strings.Contains(errOut, "kind scaling") {
			t.Fatalf("%s: got %d, %q, %q", name, code, out, errOut)
		}
		want, err := source.BFInfo(ctx, name).Result()
		if err != nil {
			t.Fatal(err)
		}
		if got, err := target.BFInfo(ctx, name+":copy").Result(); err != nil || got != want {
			t.Errorf("%s: got %+v, %v; want %+v", name, got, err, want)
		}
		for _, items := range [][]any{some, others} {
			before, err := source.BFMExists(ctx, name, items...).Result()
			if err != nil {
				t.Fatal(err)
			}
			if after, err := target.BFMExists(ctx, name+":copy", items...).Result(); err != nil || !slices.Equal(before, after) {
				t.Errorf("%s: the copy answers differently, %v", name, err)
			}
		}
		if code, _, errOut := cli(t, nil, "", args...); code != 1 || !strings.Contains(errOut, "exists already, and a dump cannot be added to it") {
			t.Errorf("%s once more: got %d, %q", name, code, errOut)
		}
	}
	t.Setenv("URIFILTER_RESP", "redis://"+p.Addr) // the port of HTTP
	if code, _, errOut := cli(t, nil, "", "import", "--filter", "x", "redis://"+from+"/0/small"); code != 1 || !strings.Contains(errOut, "hint: set resp.listen of the daemon") {
		t.Errorf("wrong port: got %d, %q", code, errOut)
	}
	if code, _, errOut := cli(t, nil, "", "import", "--filter", "x", "--resp", "http://x", "redis://"+from+"/0/small"); code != 2 || !strings.Contains(errOut, "--resp") {
		t.Errorf("no port: got %d, %q", code, errOut)
	}
}

// TestImportOverASlowLine: a part of a dump may take longer than what the client gives any other call.
func TestImportOverASlowLine(t *testing.T) {
	port := testserver.Free(t)
	p := processtest.Start(t, t.TempDir(), []string{"URIFILTER_RESP_LISTEN=" + port}, "--durability", "none")
	t.Setenv("URIFILTER_URL", p.Addr)
	t.Setenv("URIFILTER_RESP", "redis://"+port)
	if err := redistest.Client(t, redis.Options{Addr: port}).BFAdd(t.Context(), "slow", "a").Err(); err != nil {
		t.Fatal(err)
	}
	relayed := testserver.Front(t, port, func(near, far net.Conn) {
		go func() { _, _ = io.Copy(near, far); near.Close() }()
		for call := make([]byte, 4096); ; {
			n, err := near.Read(call)
			if err != nil {
				return
			}
			if strings.HasSuffix(strings.ToLower(string(call[:n])), "bf.scandump\r\n$4\r\nslow\r\n$1\r\n0\r\n") {
				time.Sleep(3 * time.Second) // and each time it is asked again
			}
			if _, err := far.Write(call[:n]); err != nil {
				return
			}
		}
	})
	if code, _, errOut := cli(t, nil, "", "import", "--filter", "copy", "redis://"+relayed+"/0/slow?read_timeout=2s"); code != 0 {
		t.Errorf("got %d, %s", code, errOut)
	}
}
