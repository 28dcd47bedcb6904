package main

import (
	"strings"
	"syscall"
	"testing"

	"github.com/cr-clawer/urifilter/daemon/internal/testkit/mongotest"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/redistest"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/testserver"
	"github.com/cr-clawer/urifilter/daemon/urifilter/internal/processtest"
)

func TestTimingCommands(t *testing.T) {
	t.Parallel()
	for _, store := range []string{"embedded", "redis"} {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			env := []string{"URIFILTER_FILTERS=[{id: 1, name: uri}, {id: 7, name: news, kind: timing, expire: 24h}]", "URIFILTER_STORE=" + store}
			if store == "redis" {
				env = append(env, "URIFILTER_REDIS_ADDRS="+redistest.Start(t).Addr)
			}
			dir := t.TempDir()
			p := processtest.Start(t, dir, env)
			p.Want("a\nb\n", "a\nb\na\n", "filter", "--type", "news")
			p.Want("", "b\n", "filter", "--type", "news", "--expire", "30d") // b keeps its deadline of a day
			p.Want("c\n", "a\nc\n", "filter", "--type", "7", "--expire", "0.3")
			p.Want("seen\ta\n", "a\n", "check", "--all", "--type", "news", "--expire", "1h")
			p.Want("new\td\n", "d\n", "check", "--all", "--type", "news")
			p.Want("none: created, id 1000, items expire as every call says", "", "filters", "create", "none", "--kind", "timing")
			p.Want("hour: created, id 1001, items expire 1h after they were accepted", "", "filters", "create", "hour", "--kind", "timing", "--expire", "3600")
			p.Want("hour: unchanged", "", "filters", "create", "hour", "--kind", "timing", "--expire", "1h")
			p.Want(" that have not expired\nexpire      24h after", "", "filters", "show", "news")
			p.Want("news  timing", "", "filters", "list")
			p.Want(`"expire": 3600,`, "", "filters", "list", "--json")
			for _, c := range []struct {
				code int
				want string
				args []string
			}{
				{1, "422 expire_missing: filter none was made without one", []string{"filter", "--type", "none"}},
				{1, "422 expire_not_supported: filter uri is of the kind bloom", []string{"filter", "--type", "uri", "--expire", "5"}},
				{2, "want a time above 0 and at most ten years", []string{"filter", "--type", "news", "--expire", "0"}},
				{2, "want a time above 0 and at most ten years", []string{"filter", "--type", "news", "--expire", "-1h"}},
				{2, "want a time above 0 and at most ten years", []string{"filter", "--type", "news", "--expire", "11y"}},
				{2, "want a time above 0 and at most ten years", []string{"filter", "--type", "news", "--expire", "4000d"}},
				{2, "want a time above 0 and at most ten years", []string{"check", "--type", "news", "--expire", "soon"}},
				{1, "capacity: is for filters of the kind bloom", []string{"filters", "create", "x", "--kind", "timing", "--capacity", "10"}},
				{1, "422 expire_not_supported", []string{"filters", "create", "x", "--expire", "1h"}},
				{1, "409 filter_conflict", []string{"filters", "create", "hour", "--kind", "timing", "--expire", "2h"}},
				{1, "want bloom or timing or exact", []string{"filters", "create", "x", "--kind", "tree"}},
			} {
				if code, _, errOut := p.Lines("z\n", c.args...); code != c.code || !strings.Contains(errOut, c.want) {
					t.Errorf("%q: exit code %d, want %d and %q\n%s", c.args, code, c.code, c.want, errOut)
				}
			}
			testserver.Await(t, "c has expired", func() bool {
				_, out, _ := p.Lines("c\n", "check", "--all", "--type", "news")
				return out == "new\tc\n"
			})
			if err := p.End(syscall.SIGTERM); err != nil {
				t.Fatalf("%v\n%s", err, p.Log)
			}
			if store == "embedded" {
				out, _ := processtest.MustCommand(t, dir, nil, "verify", "--data-dir", dir)
				processtest.MustContain(t, out, "news: sound; 2 items; entries: ", "4 filters, no damage left")
			}
			p = processtest.Start(t, dir, env)
			p.Want("c\n", "a\nb\nc\n", "filter", "--type", "news")
			p.Want("news: dropped", "", "filters", "drop", "news", "--yes")
			p.Want("news: created", "", "filters", "create", "news", "--kind", "timing", "--id", "7")
			p.Want("a\n", "a\n", "filter", "--type", "news", "--expire", "1m")
		})
	}
}

// The commands that copy bit-maps leave timing filters out, and say so.
func TestBitmapCommandsLeaveTimingFiltersOut(t *testing.T) {
	t.Parallel()
	env := []string{"URIFILTER_MONGODB_URI=" + mongotest.Start(t), "URIFILTER_FILTERS=[{id: 1, name: uri, capacity: 1000}, {id: 7, name: news, kind: timing, expire: 24h}]"}
	dir := t.TempDir()
	out, _ := processtest.MustCommand(t, dir, env, "bitmap", "init")
	processtest.MustContain(t, out, "uri: created, version uri-1", "news: created\n")
	out, _ = processtest.MustCommand(t, dir, env, "bitmap", "init")
	if out != "uri: unchanged\nnews: unchanged\n" {
		t.Errorf("init again: %q", out)
	}
	for _, running := range []bool{false, true} {
		asking := env
		if running {
			p := processtest.Start(t, dir, env)
			p.Want("a\n", "a\n", "filter", "--type", "news")
			asking = append([]string{"URIFILTER_LISTEN=" + p.Addr}, env...)
		}
		out, errOut := processtest.MustCommand(t, dir, asking, "bitmap", "update")
		processtest.MustContain(t, out, "uri: written")
		processtest.MustContain(t, errOut, "news: left out, filters of the kind timing have no bit-map")
		if strings.Contains(out, "news") {
			t.Errorf("update: %s", out)
		}
		out, _ = processtest.MustCommand(t, dir, asking, "bitmap", "restore", "--quiet")
		if !strings.Contains(out, "uri: restored") || strings.Contains(out, "news") {
			t.Errorf("restore: %s", out)
		}
		for _, verb := range []string{"update", "restore"} {
			code, _, errOut := processtest.Command(t, dir, asking, "bitmap", verb, "news")
			if code != 1 || !strings.Contains(errOut, "filter news: is of the kind timing, which has no bit-map") {
				t.Errorf("%s news: %d, %s", verb, code, errOut)
			}
		}
		out, _ = processtest.MustCommand(t, dir, asking, "bitmap", "status")
		processtest.MustContain(t, out, "no bit-map", "uri-")
	}
}
