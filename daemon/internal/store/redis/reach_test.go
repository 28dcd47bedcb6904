package redis

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/servers"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/redistest"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/testserver"
)

// lines is a log that a test reads while it is written.
type lines struct{ testserver.Log }

func (l *lines) count(text string) int { return strings.Count(l.String(), text) }

func (l *lines) await(t *testing.T, text string, n int) {
	t.Helper()
	testserver.Await(t, fmt.Sprintf("the log has %q %d times", text, n), func() bool { return l.count(text) >= n })
}

// A Redis that goes away is logged once, even if nobody asks meanwhile, and once when it is back.
func TestARedisThatGoesIsToldOfOnce(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	log := &lines{}
	c := config(server.Addr)
	c.Log = slog.New(slog.NewJSONHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	store, _ := opened(t, c)
	for round := 1; round <= 2; round++ {
		server.Kill()
		log.await(t, "redis cannot be reached", round)
		polls := log.count(`"msg":"poll of redis"`)
		log.await(t, `"msg":"poll of redis"`, polls+2)
		server.Run()
		log.await(t, "redis can be reached again", round)
		waitReady(t, store)
		for text, want := range map[string]int{"redis cannot be reached": round, "redis can be reached again": round} {
			if got := log.count(text); got != want {
				t.Errorf("round %d: %d lines that say %q, want %d", round, got, text, want)
			}
		}
	}
	servers.ClientLog{Log: c.Log}.Printf(context.Background(), "pool: %d", 7)
	if log.count(`"level":"DEBUG","msg":"go-redis","says":"pool: 7"`) != 1 {
		t.Error("what go-redis says is not in the log")
	}
}
